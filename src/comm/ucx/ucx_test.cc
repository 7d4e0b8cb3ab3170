#include "comm/ucx/ucx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/messages_plugin.h"

namespace ingot::comm {
namespace {

using std::chrono::milliseconds;

// Ranks as threads of this process, each with a worker of its own; a failing body leaves its side open.
void run(int ranks, const std::function<void(Messages&)>& body) {
  auto table = ucx::open();
  if (!table) GTEST_SKIP() << table.error().message;
  const std::string address =
      (std::filesystem::temp_directory_path() / ("ingot-ucx-" + std::to_string(getpid()))).string();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto messages = start_messages(**table, rank, ranks, address, milliseconds(20000));
      ASSERT_TRUE(messages) << messages.error().message;
      EXPECT_EQ((*messages)->rank(), rank);
      EXPECT_EQ((*messages)->world(), ranks);
      body(**messages);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Message message(int peer, bool send, uint64_t tag, void* data, int64_t bytes) {
  Message made;
  made.peer = peer;
  made.send = send;
  made.tag = tag;
  made.data = data;
  made.bytes = bytes;
  return made;
}

void complete(Messages& messages, Message& message) {
  const int64_t limit = monotonic_ns() + int64_t{20'000'000'000};
  while (message.state == Message::State::kPosted && monotonic_ns() < limit)
    if (!messages.progress() && messages.arm()) messages.sleep(milliseconds(100));
  ASSERT_EQ(message.state, Message::State::kDone) << message.failure;
}

TEST(UcxMessages, EverySizeArrivesWhoeverPostsFirst) {
  run(2, [](Messages& messages) {
    const int other = 1 - messages.rank();
    uint64_t tag = 1;
    for (const int64_t bytes : {0, 1, 4096, 8255, 8257, 100'000, 8 << 20}) {
      for (const bool receive_first : {false, true}) {
        std::vector<char> out(static_cast<size_t>(bytes)), in(static_cast<size_t>(bytes));
        std::iota(out.begin(), out.end(), static_cast<char>(messages.rank()));
        Message sent = message(other, true, tag + static_cast<uint64_t>(messages.rank()), out.data(), bytes);
        Message got = message(other, false, tag + static_cast<uint64_t>(other), in.data(), bytes);
        messages.post(receive_first ? got : sent);
        messages.post(receive_first ? sent : got);
        complete(messages, got);
        complete(messages, sent);
        std::iota(out.begin(), out.end(), static_cast<char>(other));
        ASSERT_EQ(in, out) << bytes;
        tag += 2;
      }
    }
    EXPECT_TRUE(messages.close());
  });
}

TEST(UcxMessages, TagsAreMatchedWhole) {
  run(2, [](Messages& messages) {
    constexpr uint64_t kTags[] = {0x8000000000000001, 1, 0xFFFFFFFF00000001};
    int32_t values[3] = {0, 1, 2};
    Message posted[3];
    for (int i = 0; i < 3; ++i) {
      const int k = messages.rank() == 0 ? i : 2 - i;
      posted[i] = message(1 - messages.rank(), messages.rank() == 0, kTags[k], &values[k], 4);
      if (messages.rank() == 1) values[k] = -1;
      messages.post(posted[i]);
    }
    for (Message& one : posted) complete(messages, one);
    EXPECT_EQ(std::vector<int32_t>(values, values + 3), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_TRUE(messages.close());
  });
}

TEST(UcxMessages, AReceiveOfAnotherSizeEnds) {
  run(2, [](Messages& messages) {
    for (const int64_t sent : {4, 16}) {
      int32_t data[4] = {messages.rank() + 5};
      Message one = message(1 - messages.rank(), messages.rank() == 0, static_cast<uint64_t>(sent), data,
                            messages.rank() == 0 ? sent : 8);
      messages.post(one);
      while (one.state == Message::State::kPosted) messages.progress();
      const bool too_short = messages.rank() == 1 && sent > 8;
      EXPECT_EQ(one.state, too_short ? Message::State::kFailed : Message::State::kDone);
      EXPECT_EQ(one.failure, std::string(too_short ? "Message truncated" : ""));
      if (!too_short) {
        EXPECT_EQ(data[0], 5);
      }
    }
    EXPECT_TRUE(messages.close());
  });
}

// Asleep until its limit, until it is woken, and until a message comes.
TEST(UcxMessages, SleepEndsSoonAfterItsCause) {
  run(2, [](Messages& messages) {
    const auto asleep_ns = [&](milliseconds limit) {
      const int64_t begin = monotonic_ns();
      messages.sleep(limit);
      return monotonic_ns() - begin;
    };
    while (!messages.arm()) messages.progress();
    EXPECT_GE(asleep_ns(milliseconds(30)), 25'000'000);
    std::thread waker([&messages] {
      std::this_thread::sleep_for(milliseconds(30));
      messages.wake();
    });
    EXPECT_LT(asleep_ns(milliseconds(10000)), 5'000'000'000);
    waker.join();
    messages.wake();  // ends the next one
    EXPECT_LT(asleep_ns(milliseconds(10000)), 5'000'000'000);
    EXPECT_GE(asleep_ns(milliseconds(30)), 25'000'000);
    int32_t value = 5;
    const bool first = messages.rank() == 0;
    Message question = message(1 - messages.rank(), first, 1, &value, 4);
    Message answer = message(1 - messages.rank(), !first, 2, &value, 4);
    messages.post(question);
    complete(messages, question);
    if (!first) std::this_thread::sleep_for(milliseconds(50));
    const int64_t begin = monotonic_ns();
    messages.post(answer);
    complete(messages, answer);
    EXPECT_LT(monotonic_ns() - begin, 5'000'000'000);
    EXPECT_TRUE(messages.close());
  });
}

}  // namespace
}  // namespace ingot::comm
