#include "comm/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/socket.h"

namespace ingot::comm {
namespace {

using std::chrono::milliseconds;

std::string own_path() {
  static int count = 0;
  return (std::filesystem::temp_directory_path() / fmt::format("ingot-meet-{}-{}", getpid(), count++))
      .string();
}

std::string free_port() {
  auto listener = listen_at("127.0.0.1:0");
  return fmt::format("127.0.0.1:{}", port_of(*listener));
}

struct Guest {
  int rank = 0, world = 0;
};

// All guests come at once; what each is told: the parts joined, or the error.
std::vector<std::string> meet(const std::vector<Guest>& guests, const std::string& address,
                              milliseconds limit, int rounds = 1) {
  std::vector<std::string> told(guests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < guests.size(); ++i) {
    threads.emplace_back([&, i] {
      auto rendezvous = Rendezvous::join(guests[i].rank, guests[i].world, address, limit);
      if (!rendezvous) {
        told[i] = rendezvous.error().message;
        return;
      }
      for (int round = 0; round < rounds; ++round) {
        auto parts = (*rendezvous)->exchange(fmt::format("{}.{}", guests[i].rank, round), limit);
        if (!parts) {
          told[i] = parts.error().message;
          return;
        }
        for (const std::string& part : *parts) told[i] += part + " ";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

TEST(Rendezvous, EverybodyGetsWhatEachBringsInRankOrder) {
  const std::string path = own_path();
  for (const std::string& address : {path, free_port()}) {
    for (const std::string& told : meet({{2, 4}, {0, 4}, {3, 4}, {1, 4}}, address, milliseconds(10000), 2))
      EXPECT_EQ(told, "0.0 1.0 2.0 3.0 0.1 1.1 2.1 3.1 ") << address;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Rendezvous, LargePartsReachManyRanks) {
  constexpr int kRanks = 16;
  const std::string address = own_path();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      auto rendezvous = Rendezvous::join(rank, kRanks, address, milliseconds(20000));
      ASSERT_TRUE(rendezvous) << rendezvous.error().message;
      auto parts = (*rendezvous)
                       ->exchange(std::string(Rendezvous::kMaxBytes, static_cast<char>('a' + rank)),
                                  milliseconds(20000));
      ASSERT_TRUE(parts) << parts.error().message;
      for (int other = 0; other < kRanks; ++other)
        EXPECT_EQ((*parts)[static_cast<size_t>(other)],
                  std::string(Rendezvous::kMaxBytes, static_cast<char>('a' + other)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Rendezvous, RanksThatDoNotComeAreNamed) {
  const std::string address = own_path();
  for (const std::string& told : meet({{0, 5}, {1, 5}, {3, 5}}, address, milliseconds(200)))
    EXPECT_EQ(told, fmt::format("ranks 2, 4 of 5 have not come to {} for 0.2 s", address));
}

TEST(Rendezvous, WithoutRankZeroNobodyWaitsForEver) {
  const std::string address = own_path();
  const auto told = meet({{1, 2}}, address, milliseconds(50));
  EXPECT_NE(told[0].find("rank 1 finds no rank 0: nobody answers at " + address), std::string::npos)
      << told[0];
}

TEST(Rendezvous, RanksThatDoNotFitAreNamed) {
  std::string address = own_path();
  for (const std::string& told : meet({{0, 3}, {1, 3}, {1, 3}}, address, milliseconds(5000)))
    EXPECT_EQ(told, fmt::format("two processes come to {} as rank 1 of 3", address));
  address = own_path();
  for (const std::string& told : meet({{0, 2}, {1, 3}}, address, milliseconds(5000)))
    EXPECT_EQ(told, fmt::format("a process comes to {} as rank 1 of 3, but rank 0 was started for 2 ranks",
                                address));
}

TEST(Rendezvous, ARankThatLeavesIsNamedAtOnce) {
  const std::string address = own_path();
  std::thread leaves([&] { EXPECT_TRUE(Rendezvous::join(1, 3, address, milliseconds(20000))); });
  const auto told = meet({{0, 3}}, address, milliseconds(20000));
  leaves.join();
  EXPECT_EQ(told[0], fmt::format("rank 1 left the rendezvous at {} before all had come", address));
}

TEST(Rendezvous, StrangersAreIgnored) {
  const std::string address = own_path();
  std::thread stranger([&] {
    const Deadline deadline = deadline_after(milliseconds(10000));
    for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\4\0\0\0abcd", 8)}) {
      auto socket = connect_to(address, deadline);
      ASSERT_TRUE(socket);
      EXPECT_TRUE(write_all(*socket, std::as_bytes(std::span(bytes)), deadline));
      std::byte one{};
      EXPECT_EQ(read_exactly(*socket, std::span(&one, 1), deadline).error().message, "closed");
    }
  });
  std::thread late([&] {
    stranger.join();
    EXPECT_EQ(meet({{1, 2}}, address, milliseconds(10000))[0], "0.0 1.0 ");
  });
  EXPECT_EQ(meet({{0, 2}}, address, milliseconds(10000))[0], "0.0 1.0 ");
  late.join();
}

}  // namespace
}  // namespace ingot::comm
