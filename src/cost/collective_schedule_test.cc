// Schedules are run over all their members with values that say whose parts they hold: every element of the
// result is the sum of each member's part exactly once. Messages are matched as a transport would, with their
// memory read as late as it may be.

#include "cost/collective_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>

namespace ingot::cost {
namespace {

constexpr int kMost = 16;

// What an element holds: of which element of the whole, and how often each member's part of it.
struct Value {
  int64_t element = -1;  // -1: nothing was ever written here
  std::array<uint8_t, kMost> parts{};
  bool operator==(const Value&) const = default;
};

class World {
 public:
  World(const CollectiveCall& call, int members, const Algorithm& algorithm, int64_t piece, bool in_place,
        uint64_t seed)
      : random_(seed) {
    for (int m = 0; m < members; ++m) {
      Member member;
      member.schedule = make_schedule(call, members, m, algorithm, piece);
      member.in_place = in_place;
      for (const Step& step : member.schedule.steps) member.waits.push_back(step.waits);
      member.memory[2].resize(static_cast<size_t>(member.schedule.scratch_elements));
      for (uint32_t i = 0; i < member.waits.size(); ++i)
        if (member.waits[i] == 0) ready_.emplace_back(m, i);
      members_.push_back(std::move(member));
    }
  }

  std::vector<Value>& in(int member) { return members_[at(member)].area(Area::kIn); }
  std::vector<Value>& out(int member) { return members_[at(member)].area(Area::kOut); }
  const Schedule& schedule(int member) const { return members_[at(member)].schedule; }

  // Does all steps in any order that their waits allow.
  void run() {
    while (!ready_.empty() || !meetings_.empty()) {
      const size_t choices = ready_.size() + meetings_.size();
      size_t choice = random_() % choices;
      if (choice < ready_.size()) {
        std::swap(ready_[choice], ready_.back());
        const auto [member, step] = ready_.back();
        ready_.pop_back();
        begin(member, step);
      } else {
        choice -= ready_.size();
        std::swap(meetings_[choice], meetings_.back());
        const Meeting meeting = meetings_.back();
        meetings_.pop_back();
        meet(meeting);
      }
    }
    for (const Member& member : members_) EXPECT_EQ(member.done, member.schedule.steps.size());
    EXPECT_TRUE(sends_.empty() && receives_.empty()) << "messages that nobody met";
  }

 private:
  struct Member {
    Schedule schedule;
    std::array<std::vector<Value>, kAreas> memory;
    bool in_place = false;
    std::vector<uint32_t> waits;
    size_t done = 0;
    std::vector<Value>& area(Area which) {
      return memory[in_place && which == Area::kIn ? size_t{1} : static_cast<size_t>(which)];
    }
  };
  struct Meeting {
    int sender, receiver;
    uint32_t send, receive;
  };
  using Key = std::tuple<int, int, uint32_t>;  // from, to, number

  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  void begin(int m, uint32_t s) {
    Member& member = members_[at(m)];
    const Step& step = member.schedule.steps[s];
    if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kReceive) {
      const bool sends = step.kind == Step::Kind::kSend;
      const Key key = sends ? Key{m, step.peer, step.message} : Key{step.peer, m, step.message};
      (sends ? sends_ : receives_)[key] = s;
      if (!sends_.contains(key) || !receives_.contains(key)) return;
      meetings_.push_back({std::get<0>(key), std::get<1>(key), sends_[key], receives_[key]});
      sends_.erase(key);
      receives_.erase(key);
      return;
    }
    for (int64_t i = 0; i < step.elements; ++i) {
      Value sum = read(member, step, 0, i);
      for (uint32_t k = 1; k < step.sources; ++k) {
        const Value other = read(member, step, k, i);
        ASSERT_EQ(other.element, sum.element) << "parts of two elements are added";
        for (size_t p = 0; p < kMost; ++p) sum.parts[p] = static_cast<uint8_t>(sum.parts[p] + other.parts[p]);
      }
      member.area(step.to.area)[at(step.to.offset + i)] = sum;
    }
    finish(m, s);
  }

  Value read(Member& member, const Step& step, uint32_t source, int64_t i) {
    const Place& place = member.schedule.sources[step.first_source + source];
    const Value value = member.area(place.area)[at(place.offset + i)];
    EXPECT_GE(value.element, 0) << "read before it was written";
    return value;
  }

  void meet(const Meeting& meeting) {
    Member& sender = members_[at(meeting.sender)];
    Member& receiver = members_[at(meeting.receiver)];
    const Step& send = sender.schedule.steps[meeting.send];
    const Step& receive = receiver.schedule.steps[meeting.receive];
    ASSERT_EQ(send.elements, receive.elements);
    for (int64_t i = 0; i < send.elements; ++i)
      receiver.area(receive.to.area)[at(receive.to.offset + i)] = read(sender, send, 0, i);
    finish(meeting.sender, meeting.send);
    finish(meeting.receiver, meeting.receive);
  }

  void finish(int m, uint32_t s) {
    Member& member = members_[at(m)];
    ++member.done;
    const Step& step = member.schedule.steps[s];
    for (uint32_t i = 0; i < step.nexts; ++i) {
      const uint32_t next = member.schedule.next[step.first_next + i];
      ASSERT_GT(next, s);
      if (--member.waits[next] == 0) ready_.emplace_back(m, next);
    }
  }

  std::mt19937_64 random_;
  std::vector<Member> members_;
  std::vector<std::pair<int, uint32_t>> ready_;
  std::vector<Meeting> meetings_;
  std::map<Key, uint32_t> sends_, receives_;
};

Value part_of(int64_t element, int member) {
  Value value;
  value.element = element;
  value.parts[static_cast<size_t>(member)] = 1;
  return value;
}
Value sum_of(int64_t element, int members) {
  Value value;
  value.element = element;
  std::fill_n(value.parts.begin(), members, uint8_t{1});
  return value;
}

void check(const CollectiveCall& call, int n, const Algorithm& algorithm, int64_t piece, bool in_place,
           uint64_t seed) {
  SCOPED_TRACE(testing::Message() << name_of(call.operation) << " of " << call.elements << " over " << n
                                  << " by " << name_of(algorithm) << ", pieces of " << piece
                                  << ", member of root " << call.root);
  World world(call, n, algorithm, piece, in_place, seed);
  const int64_t block = call.elements / n;
  const auto count = [&](bool blocks) { return static_cast<size_t>(blocks ? block : call.elements); };
  const bool gathers = call.operation == Collective::kAllGather;
  const bool scatters = call.operation == Collective::kReduceScatter;
  for (int m = 0; m < n; ++m) {
    world.out(m).resize(count(scatters));
    world.in(m).resize(count(gathers));
    if (call.operation == Collective::kBroadcast && m != call.root) continue;
    std::vector<Value>& in = call.operation == Collective::kBroadcast ? world.out(m) : world.in(m);
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = part_of(static_cast<int64_t>(i) + (gathers ? block * m : 0), m);
  }
  world.run();
  if (testing::Test::HasFailure()) return;
  for (int m = 0; m < n; ++m) {
    const std::vector<Value>& out = world.out(m);
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t element = static_cast<int64_t>(i) + (scatters ? block * m : 0);
      Value expected = sum_of(element, n);
      if (gathers) expected = part_of(element, static_cast<int>(element / block));
      if (call.operation == Collective::kBroadcast) expected = part_of(element, call.root);
      ASSERT_EQ(out[i], expected) << "member " << m << ", element " << i;
    }
  }
}

// Every way to cut n into at most three factors above 1, with every pattern along each.
std::vector<Algorithm> all_algorithms(int n) {
  constexpr Pattern kAll[] = {Pattern::kRing, Pattern::kHalving, Pattern::kDirect, Pattern::kTree,
                              Pattern::kExchange};
  std::vector<std::vector<int>> shapes = {{n}};
  for (int a = 2; a < n; ++a) {
    if (n % a != 0) continue;
    shapes.push_back({a, n / a});
    for (int b = 2; b < n / a; ++b)
      if (n / a % b == 0) shapes.push_back({a, b, n / a / b});
  }
  std::vector<Algorithm> result;
  for (const std::vector<int>& shape : shapes) {
    size_t ways = 1;
    for (size_t k = 0; k < shape.size(); ++k) ways *= std::size(kAll);
    for (size_t way = 0; way < ways; ++way) {
      Algorithm algorithm;
      size_t rest = way;
      for (const int size : shape) {
        algorithm.dimensions.push_back({size, kAll[rest % std::size(kAll)]});
        rest /= std::size(kAll);
      }
      for (const bool rotated : {false, true}) {
        for (const bool both : {false, true}) {
          algorithm.rotated = rotated;
          algorithm.both_ways = both;
          result.push_back(algorithm);
        }
      }
    }
  }
  return result;
}

TEST(CollectiveSchedule, EveryElementIsSummedOnceByEveryAlgorithm) {
  uint64_t seed = 1;
  int checked = 0;
  for (int n = 2; n <= kMost; ++n) {
    for (const Algorithm& algorithm : all_algorithms(n)) {
      for (const Collective operation : {Collective::kAllReduce, Collective::kReduceScatter,
                                         Collective::kAllGather, Collective::kBroadcast}) {
        if (!applies(algorithm, operation, n)) continue;
        const bool blocks = operation == Collective::kReduceScatter || operation == Collective::kAllGather;
        const int64_t elements =
            blocks ? n * static_cast<int64_t>(seed % 7) : static_cast<int64_t>(seed % 53);
        CollectiveCall call{operation, elements};
        call.root = static_cast<int>(seed % static_cast<uint64_t>(n));
        const bool in_place = operation == Collective::kAllReduce && seed % 2 == 0;
        check(call, n, algorithm, 1 + static_cast<int64_t>(seed % 5), in_place, seed);
        if (HasFailure()) return;
        ++seed;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 2000);
}

}  // namespace
}  // namespace ingot::cost
