#include "cli/world.h"

#include <numeric>

#include "comm/texts.h"

namespace ingot::cli {
namespace {

// While rank 0 makes a data set or asks the disk; a death is noticed by agents.
constexpr comm::CallOptions kAsLongAsItTakes{.timeout = std::chrono::hours(24),
                                             .what = "the start of rank 0"};
constexpr comm::CallOptions kAgreement{.timeout = std::chrono::seconds(60), .what = "the agreement at start"};

}  // namespace

Result<World> World::join(launch::RankSide side, const std::string& transport) {
  World world;
  world.rank_ = side.place.rank;
  world.size_ = side.place.world;
  INGOT_TRY(world.transport_, comm::join_world(transport, world.rank_, world.size_, side.place.address,
                                               {.page = &side.page()}));
  std::vector<int> everybody(static_cast<size_t>(world.size_));
  std::iota(everybody.begin(), everybody.end(), 0);
  INGOT_TRY(world.all_, world.transport_->group(everybody));
  world.side_ = std::move(side);
  return world;
}

void World::leave() {
  if (transport_) (void)transport_->leave(kAgreement);
}

Result<std::string> World::of_first(const std::function<Result<std::string>()>& work) {
  if (alone()) return work();
  std::string told;
  if (first()) {
    const Result<std::string> own = work();
    told = own ? 'v' + *own : 'e' + std::string(1, static_cast<char>(own.error().code)) + own.error().message;
  }
  INGOT_TRY(told, comm::broadcast_text(*all_, told, 0, kAsLongAsItTakes));
  if (told.front() == 'v') return told.substr(1);
  said_by_first_ = true;
  return Error{static_cast<ErrorCode>(told[1]), told.substr(2)};
}

Result<void> World::one_before_others(const std::function<Result<void>()>& work) {
  const int own_turn = first() ? 0 : side_->place.local_rank == 0 ? 1 : 2;
  for (int turn = 0; turn < 3; ++turn) {
    if (turn == own_turn) INGOT_TRY_VOID(work());
    if (!alone()) INGOT_TRY_VOID(all_->barrier(kAsLongAsItTakes));
  }
  return {};
}

Result<void> World::agree(const std::vector<train::Fact>& facts) {
  if (alone()) return {};
  auto agreed = train::agree(*all_, facts, kAgreement);
  if (!agreed && agreed.error().code == ErrorCode::kInvalid) said_by_first_ = true;
  return agreed;
}

}  // namespace ingot::cli
