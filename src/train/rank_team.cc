#include "train/rank_team.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ingot::train {

struct RankTeam::Shared {
  std::mutex mutex;
  std::condition_variable begin, done;
  const std::function<Result<void>(Rank&)>* body = nullptr;
  uint64_t generation = 0;
  int running = 0;
  bool stop = false;
  std::vector<Result<void>> results;
  std::vector<std::thread> threads;
};

namespace {

// The ranks as one long axis: a group over it is the world.
graph::Mesh line_of(int ranks) {
  graph::Mesh mesh;
  mesh.sizes[static_cast<size_t>(graph::Axis::kReplica)] = ranks;
  return mesh;
}

}  // namespace

Result<std::unique_ptr<RankTeam>> RankTeam::create(int ranks, int threads, std::string_view backend) {
  INGOT_CHECK(ranks >= 1, "{} ranks", ranks);
  return make(comm::make_local_world(ranks), threads, backend);
}

Result<std::unique_ptr<RankTeam>> RankTeam::join(std::unique_ptr<comm::Transport> transport, int threads,
                                                 std::string_view backend) {
  std::vector<std::unique_ptr<comm::Transport>> one;
  one.push_back(std::move(transport));
  return make(std::move(one), threads, backend);
}

Result<std::unique_ptr<RankTeam>> RankTeam::make(std::vector<std::unique_ptr<comm::Transport>> transports,
                                                 int threads, std::string_view backend) {
  const int ranks = static_cast<int>(transports.size());
  std::unique_ptr<RankTeam> team(new RankTeam());
  team->shared_ = std::make_unique<Shared>();
  team->shared_->results.resize(transports.size());
  const int all = threads > 0 ? threads : available_threads();
  for (int i = 0; i < ranks; ++i) {
    auto rank = std::make_unique<Rank>();
    rank->transport = std::move(transports[static_cast<size_t>(i)]);
    rank->rank = rank->transport->rank();
    rank->index = i;
    INGOT_TRY(rank->backend, backend::make_backend(backend));
    INGOT_TRY(rank->control, rank->transport->group(line_of(rank->transport->world()), graph::kWorldMask));
    backend::Backend* own = rank->backend.get();
    const int share = all / ranks + (i < all % ranks ? 1 : 0);
    rank->pool = std::make_unique<ThreadPool>(std::max(1, share), [own] { own->prepare_thread(); });
    team->ranks_.push_back(std::move(rank));
  }
  team->ranks_[0]->backend->prepare_thread();
  RankTeam* self = team.get();
  for (int i = 1; i < ranks; ++i) team->shared_->threads.emplace_back([self, i] { self->serve(i); });
  return team;
}

int RankTeam::threads_of(int ranks, int threads) {
  const int all = threads > 0 ? threads : available_threads();
  return std::max(1, (all + ranks - 1) / ranks);
}

RankTeam::~RankTeam() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->begin.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

void RankTeam::serve(int index) {
  Rank& own = *ranks_[static_cast<size_t>(index)];
  own.backend->prepare_thread();
  uint64_t seen = 0;
  for (;;) {
    const std::function<Result<void>(Rank&)>* body = nullptr;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->begin.wait(lock, [&] { return shared_->stop || shared_->generation != seen; });
      if (shared_->stop) return;
      seen = shared_->generation;
      body = shared_->body;
    }
    Result<void> result = (*body)(own);
    const std::lock_guard lock(shared_->mutex);
    shared_->results[static_cast<size_t>(index)] = std::move(result);
    if (--shared_->running == 0) shared_->done.notify_one();
  }
}

Result<void> RankTeam::each(const std::function<Result<void>(Rank&)>& body) {
  if (size() == 1) return body(*ranks_[0]);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->body = &body;
    shared_->running = size() - 1;
    ++shared_->generation;
  }
  shared_->begin.notify_all();
  Result<void> own = body(*ranks_[0]);
  std::unique_lock lock(shared_->mutex);
  shared_->done.wait(lock, [&] { return shared_->running == 0; });
  shared_->results[0] = std::move(own);
  for (Result<void>& result : shared_->results) {
    if (!result) return std::move(result).take_error();
  }
  return {};
}

}  // namespace ingot::train
