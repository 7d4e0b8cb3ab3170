#include "launch/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace ingot::launch {
namespace {

using Words = std::map<std::string, std::string>;

Result<Place> place_in(const Words& words) {
  return find_place([&](const char* name) -> const char* {
    const auto found = words.find(name);
    return found == words.end() ? nullptr : found->second.c_str();
  });
}

void expect_place(const Words& words, const std::string& launcher, std::vector<int> numbers,
                  const std::string& address) {
  const auto place = place_in(words);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(place->launcher, launcher);
  EXPECT_EQ((std::vector<int>{place->rank, place->world, place->local_rank, place->local_world}), numbers);
  EXPECT_EQ(place->address, address);
}

std::string mistake_in(const Words& words) {
  const auto place = place_in(words);
  if (place) return "no mistake: " + place->launcher;
  EXPECT_EQ(place.error().code, ErrorCode::kInvalid);
  return place.error().message;
}

const Words kTorchWords = {{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node-0"},
                           {"MASTER_PORT", "29500"}};
const Words kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"OMPI_MCA_ess_base_jobid", "348717057"},
    {"OMPI_MCA_orte_hnp_uri", "348717056.0;tcp://192.0.2.2,10.0.0.2:45907;tcp6://[::1]:54239"}};
const Words kSlurm = {
    {"SLURM_PROCID", "6"},       {"SLURM_NTASKS", "7"},  {"SLURM_STEP_NUM_TASKS", "7"},
    {"SLURM_LOCALID", "0"},      {"SLURM_NODEID", "3"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
    {"SLURM_JOB_ID", "17"},      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[07-09,12]"},
    {"SLURMD_NODENAME", "gpu12"}};

Words with(Words words, const Words& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

TEST(Environment, NothingSetIsAlone) {
  expect_place({}, "", {0, 1, 0, 1}, "");
  EXPECT_FALSE(place_in({})->node.empty());
  EXPECT_EQ(place_in({{"INGOT_NODE", "a"}})->node, "a");
}

TEST(Environment, EachLauncherInItsOwnWords) {
  expect_place({{"INGOT_RANK", "1"},
                {"INGOT_WORLD", "2"},
                {"INGOT_LOCAL_RANK", "1"},
                {"INGOT_LOCAL_WORLD", "2"},
                {"INGOT_ADDRESS", "/tmp/x/meet"}},
               "ingot launch", {1, 2, 1, 2}, "/tmp/x/meet");
  expect_place(kTorchWords, "RANK and WORLD_SIZE", {5, 8, 1, 4}, "node-0:29500");
  expect_place(with(kTorchWords, {{"MASTER_ADDR", "fd00::2"}}), "RANK and WORLD_SIZE", {5, 8, 1, 4},
               "[fd00::2]:29500");
  expect_place(
      {{"JOB_COMPLETION_INDEX", "3"}, {"INGOT_WORLD", "4"}, {"INGOT_ADDRESS", "train-0.train:29400"}},
      "Kubernetes", {3, 4, 0, 1}, "train-0.train:29400");
  expect_place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"INGOT_ADDRESS", "a:1"}}, "PMI (MPICH, Intel MPI)",
               {1, 2, 0, 1}, "a:1");
}

TEST(Environment, OpenMpiMeetsWhereMpirunIs) {
  const auto place = place_in(kOpenMpi);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->address.substr(0, 10), "192.0.2.2:") << place->address;
  const int port = std::stoi(place->address.substr(10));
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 32000);
  EXPECT_EQ(port % 2, 0);
  EXPECT_NE(place_in(with(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "348717058"}}))->address, place->address);
  // On one node a path is enough, the same for all.
  const Words one_node = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"TMPDIR", "/scratch"}});
  const std::string path = place_in(one_node)->address;
  EXPECT_EQ(path.substr(0, 15), "/scratch/ingot-");
  EXPECT_EQ(place_in(with(one_node, {{"OMPI_COMM_WORLD_RANK", "3"}}))->address, path);
}

TEST(Environment, SlurmMeetsAtTheFirstNodeOfTheStep) {
  const auto place = place_in(kSlurm);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ((std::vector<int>{place->rank, place->world, place->local_rank, place->local_world}),
            (std::vector<int>{6, 7, 0, 1}));
  EXPECT_EQ(place->address.substr(0, 6), "gpu07:");
  EXPECT_EQ(place->node, "gpu12");
  EXPECT_EQ(place_in(with(kSlurm, {{"INGOT_ADDRESS", "10.0.0.1:5000"}}))->address, "10.0.0.1:5000");
  // A batch script without srun has no step: it trains alone.
  expect_place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "17"}}, "", {0, 1, 0, 1}, "");
}

TEST(Environment, TheInnerLauncherCounts) {
  EXPECT_EQ(place_in(with(kSlurm, kOpenMpi))->launcher, "Open MPI");
  EXPECT_EQ(place_in(with(kSlurm, with(kTorchWords, {{"TORCHELASTIC_RUN_ID", "x"}})))->launcher, "torchrun");
  EXPECT_EQ(place_in(with(with(kSlurm, kOpenMpi), {{"INGOT_RANK", "0"}, {"INGOT_WORLD", "1"}}))->launcher,
            "ingot launch");
  // torchrun's own store has the port that it names.
  EXPECT_EQ(
      place_in(with(kTorchWords, {{"TORCHELASTIC_RUN_ID", "x"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}))
          ->address,
      "node-0:29501");
}

TEST(Environment, ContradictionsAreRefused) {
  EXPECT_EQ(
      mistake_in(with(kSlurm, kTorchWords)),
      "RANK=5 of WORLD_SIZE=8 contradicts SLURM_PROCID=6 of SLURM_STEP_NUM_TASKS=7 (Slurm): unset one of "
      "the two");
  // The same thing said twice is none.
  EXPECT_EQ(
      place_in(with(kSlurm, {{"RANK", "6"}, {"WORLD_SIZE", "7"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}))
          ->address,
      "a:1");
  EXPECT_EQ(mistake_in({{"RANK", "8"}, {"WORLD_SIZE", "8"}}),
            "RANK=8 is no rank of WORLD_SIZE=8 (RANK and WORLD_SIZE): ranks go from 0 to 7");
  EXPECT_EQ(mistake_in(with(kTorchWords, {{"LOCAL_RANK", "6"}})),
            "LOCAL_RANK=6 contradicts RANK=5 of 8 (RANK and WORLD_SIZE)");
  EXPECT_EQ(mistake_in(with(kTorchWords, {{"RANK", "five"}})),
            "RANK=five is no number of the kind that a launcher sets");
}

TEST(Environment, HalfOfALaunchersWordsIsRefused) {
  EXPECT_EQ(
      mistake_in({{"RANK", "1"}}),
      "RANK=1 says that this is one of many (RANK and WORLD_SIZE), but WORLD_SIZE is not set: set it to the "
      "number of ranks (1: this process trains alone)");
  EXPECT_EQ(mistake_in({{"WORLD_SIZE", "2"}}),
            "WORLD_SIZE=2 is set, RANK is not: set both, or neither to train alone");
  EXPECT_EQ(mistake_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
            "MASTER_ADDR is set, MASTER_PORT is not: set both, to the host of rank 0 and a free port there");
  EXPECT_EQ(
      mistake_in({{"JOB_COMPLETION_INDEX", "3"}}),
      "JOB_COMPLETION_INDEX=3 says that this is one of many (Kubernetes), but INGOT_WORLD is not set: set it "
      "to the number of ranks (1: this process trains alone)");
  expect_place({{"JOB_COMPLETION_INDEX", "3"}, {"INGOT_WORLD", "1"}}, "", {0, 1, 0, 1}, "");
}

TEST(Environment, WatchersMeetBesideTheRanks) {
  EXPECT_EQ(*watch_address("node-0:29500"), "node-0:29501");
  EXPECT_EQ(*watch_address("[fd00::2]:1"), "[fd00::2]:2");
  EXPECT_EQ(*watch_address("/tmp/x/meet"), "/tmp/x/meet.watch");
  EXPECT_FALSE(watch_address("node-0"));
  EXPECT_FALSE(watch_address("node-0:65535"));
}

TEST(Environment, ListsAsSlurmWritesThem) {
  EXPECT_EQ(first_host("n0"), "n0");
  EXPECT_EQ(first_host("n0,n1"), "n0");
  EXPECT_EQ(first_host("n[0-3]"), "n0");
  EXPECT_EQ(first_host("gpu[07,09],login"), "gpu07");
  EXPECT_EQ(first_host("login,gpu[07,09]"), "login");
  EXPECT_EQ(first_host("rack[1-2]-n[03-04].site"), "rack1-n03.site");
  const std::string tasks = "2(x3),1,4(x2)";
  const std::vector<int> expected = {2, 2, 2, 1, 4, 4, 0};
  for (int node = 0; node < 7; ++node) EXPECT_EQ(tasks_on_node(tasks, node), expected[size_t(node)]) << node;
}

}  // namespace
}  // namespace ingot::launch
