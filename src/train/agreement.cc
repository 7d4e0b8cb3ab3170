#include "train/agreement.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/hash.h"
#include "comm/texts.h"
#include "spec/config.h"

namespace ingot::train {
namespace {

constexpr size_t kShownLines = 4, kShownBytes = 120;
constexpr std::array<std::string_view, 3> kOwnKeys = {"run.dir", "run.threads", "run.threads_per_rank"};

struct Print {  // of one fact on one rank
  int64_t kin = 0, hash = 0;
  bool operator==(const Print&) const = default;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string shortened(const std::string& line) {
  return line.size() <= kShownBytes ? line : line.substr(0, kShownBytes) + " …";
}

std::vector<std::string> without(const std::vector<std::string>& lines,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  for (const std::string& line : lines) {
    if (std::find(others.begin(), others.end(), line) == others.end()) rest.push_back(shortened(line));
  }
  if (rest.size() > kShownLines) {
    rest.resize(kShownLines);
    rest.emplace_back("…");
  }
  return rest;
}

std::string difference(const std::string& theirs, const std::string& most) {
  const std::vector<std::string> there = without(lines_of(theirs), lines_of(most)),
                                 elsewhere = without(lines_of(most), lines_of(theirs));
  const auto said = [](const std::vector<std::string>& lines) {
    return lines.empty() ? std::string("nothing of it") : fmt::format("{}", fmt::join(lines, "; "));
  };
  return fmt::format("there {}, elsewhere {}", said(there), said(elsewhere));
}

// Of each kin the print that most ranks have; the first rank's where two are as many.
std::map<int64_t, int> standards(const std::vector<Print>& prints) {
  std::map<int64_t, int> rank_of;
  for (size_t rank = 0; rank < prints.size(); ++rank) {
    const auto like = [&](size_t one) { return std::count(prints.begin(), prints.end(), prints[one]); };
    const auto [found, added] = rank_of.try_emplace(prints[rank].kin, static_cast<int>(rank));
    if (!added && like(rank) > like(static_cast<size_t>(found->second)))
      found->second = static_cast<int>(rank);
  }
  return rank_of;
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  constexpr size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text + (ranks.size() == 1 ? " has" : " have");
}

Result<std::vector<Print>> gather_prints(comm::Communicator& world, const std::vector<Fact>& facts,
                                         const comm::CallOptions& options) {
  std::vector<Print> own, all(facts.size() * static_cast<size_t>(world.size()));
  for (const Fact& fact : facts) own.push_back({fact.kin, static_cast<int64_t>(hash64(fact.text))});
  const auto view = [](std::vector<Print>& prints) {
    return tensor::TensorView{prints.data(), tensor::DType::kI64,
                              tensor::Shape{static_cast<int64_t>(2 * prints.size())}};
  };
  INGOT_TRY_VOID(world.all_gather(view(own), view(all), 0, options));
  return all;
}

// The note that the linker leaves in a program, in hexadecimal; empty where it left none.
std::string build_id() {
  std::string id;
  const auto visit = [](dl_phdr_info* info, size_t, void* out) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_NOTE) continue;
      const auto* at = reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr);
      const std::byte* end = at + segment.p_memsz;
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const std::byte* name = at + sizeof note;
        const std::byte* value = name + (note.n_namesz + 3U) / 4 * 4;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
          for (size_t byte = 0; byte < note.n_descsz; ++byte)
            *static_cast<std::string*>(out) += fmt::format("{:02x}", static_cast<unsigned>(value[byte]));
        }
        at = value + (note.n_descsz + 3U) / 4 * 4;
      }
    }
    return 1;  // the first object is the program itself
  };
  (void)dl_iterate_phdr(visit, &id);
  return id;
}

}  // namespace

Result<void> agree(comm::Communicator& world, const std::vector<Fact>& facts,
                   const comm::CallOptions& options) {
  INGOT_TRY(const std::vector<Print> all, gather_prints(world, facts, options));
  for (size_t i = 0; i < facts.size(); ++i) {
    std::vector<Print> prints;
    for (size_t rank = 0; rank < static_cast<size_t>(world.size()); ++rank)
      prints.push_back(all[rank * facts.size() + i]);
    const std::map<int64_t, int> standard = standards(prints);
    std::vector<int> apart;
    for (size_t rank = 0; rank < prints.size(); ++rank) {
      if (prints[rank] != prints[static_cast<size_t>(standard.at(prints[rank].kin))])
        apart.push_back(static_cast<int>(rank));
    }
    if (apart.empty()) continue;
    INGOT_TRY(const std::vector<std::string> texts, comm::exchange_texts(world, facts[i].text, options));
    const auto first = static_cast<size_t>(apart.front());
    return invalid(
        fmt::format("{} another {} than the others: {}. {}", ranks_in_words(apart), facts[i].subject,
                    difference(texts[first], texts[static_cast<size_t>(standard.at(prints[first].kin))]),
                    facts[i].remedy));
  }
  return {};
}

Fact program_fact() {
  return {.subject = "build of ingot",
          .text = fmt::format("version {}, build {}", INGOT_VERSION, build_id()),
          .remedy = "Install the same program on every node"};
}

Fact configuration_fact(const spec::RunSpec& spec) {
  std::string text;
  for (const spec::Difference& one : spec::diff_specs(spec::RunSpec{}, spec)) {
    if (std::find(kOwnKeys.begin(), kOwnKeys.end(), one.key) == kOwnKeys.end())
      text += fmt::format("{} = {}\n", one.key, one.after);
  }
  return {
      .subject = "configuration", .text = text, .remedy = "Start all ranks with the same file and options"};
}

Fact data_fact(const DataIdentity& identity) {
  return {.subject = "data set",
          .text = fmt::format("tokens {}\ntokenizer {}\n", identity.data, identity.tokenizer),
          .remedy = "Give all ranks the same files (data.train, data.tokenizer)"};
}

std::vector<Fact> resolved_facts(const ResolvedRun& run, const RunPrograms& programs) {
  Fact choices = configuration_fact(run.spec);
  choices.subject = "choice of what the configuration leaves open";
  choices.remedy = "Set these keys";
  Fact program{.subject = "compiled program",
               .text = graph::print(*programs.front().train) + graph::print(*programs.front().evaluate),
               .remedy = "This is a fault of ingot: please report it with this line",
               .kin = 0};
  constexpr int kMoreThanThreads = 1 << 16;
  program.kin = run.mesh.coordinate(run.rank_here(0), graph::Axis::kPp) * kMoreThanThreads + run.threads;
  return {std::move(choices), std::move(program)};
}

}  // namespace ingot::train
