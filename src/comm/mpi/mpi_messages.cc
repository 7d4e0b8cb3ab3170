// libingot-mpi.so: messages over MPI_Isend and MPI_Irecv, for fabrics that only the site's MPI knows. MPI
// moves nothing without being called and cannot be slept on: who sleeps here wakes every 0.2 ms to test.
//
// Tags of MPI are narrower than ours (messages.h). The generation and the sender are dropped: a communicator
// is of one generation, and MPI matches senders. Messages of send and receive keep the caller's tag and drop
// its count, since MPI keeps the order of equal tags; others keep the low bits of their count. What is left
// of the channel is in the choice of a communicator.

#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "comm/messages.h"
#include "comm/messages_table.h"
#include "comm/sleeper.h"

namespace {

using namespace ingot::comm;

constexpr int kRestBits = 12, kLowBits = kTagLaneBits + kRestBits;
constexpr int kMostCommunicators = 32;

struct Side {
  std::vector<MPI_Comm> communicators;
  int channel_bits = 0;  // of the channel, in a tag
  // Outstanding, at equal places; `indices` and `statuses` are room for MPI_Testsome.
  std::vector<MPI_Request> requests;
  std::vector<IngotMessage*> messages;
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  Sleeper sleeper;
  bool closed = false;
};

int open_sides = 0;  // of this process; MPI is used by one thread at a time
thread_local std::string sentence;

const char* failed(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  sentence = std::string(what) + ": " + text;
  return sentence.c_str();
}

// After a failure it would wait for ranks that are gone.
void finalize_at_exit() {
  int done = 0;
  MPI_Finalized(&done);
  if (open_sides == 0 && done == 0) MPI_Finalize();
}

const char* initialise() {
  int yes = 0;
  MPI_Initialized(&yes);
  if (yes != 0) return nullptr;
  // Where no mpirun started this process it is a world of its own, without a daemon beside it.
  if (getenv("PMIX_RANK") == nullptr && getenv("PMI_RANK") == nullptr)
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  int level = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (code != MPI_SUCCESS) return failed("MPI cannot be initialised", code);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::atexit(finalize_at_exit);
  return level >= MPI_THREAD_SERIALIZED ? nullptr : "this MPI can only be used by the thread that started it";
}

// The first `world` ranks of MPI's world.
const char* make_communicators(Side& side, int world) {
  MPI_Group all, part;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int range[1][3] = {{0, world - 1, 1}};
  MPI_Group_range_incl(all, 1, range, &part);
  MPI_Comm first;
  int code = MPI_Comm_create_group(MPI_COMM_WORLD, part, 0, &first);
  MPI_Group_free(&all);
  MPI_Group_free(&part);
  if (code != MPI_SUCCESS) return failed("MPI makes no communicator", code);
  MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
  side.communicators.push_back(first);
  int* highest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &found);
  int bits = 15;  // what the standard promises
  while (found != 0 && bits < 31 && *highest >> bits != 0) ++bits;
  side.channel_bits = std::min(bits - kLowBits, kTagChannelBits);
  const int wanted = std::min(1 << (kTagChannelBits - side.channel_bits), kMostCommunicators);
  while (static_cast<int>(side.communicators.size()) < wanted) {
    MPI_Comm another;
    code = MPI_Comm_dup(first, &another);
    if (code != MPI_SUCCESS) return failed("MPI makes no communicator", code);
    side.communicators.push_back(another);
  }
  return nullptr;
}

const char* start(int32_t rank, int32_t world, void** out) {
  if (const char* why = initialise()) return why;
  int own = 0, all = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  if (own != rank || all < world) {
    sentence = "mpirun made this process rank " + std::to_string(own) + " of " + std::to_string(all) +
               ", but it is to be rank " + std::to_string(rank) + " of " + std::to_string(world) +
               ": start as many with mpirun -n";
    return sentence.c_str();
  }
  auto side = std::make_unique<Side>();
  if (!side->sleeper.usable()) return "this process may open no more files";
  if (const char* why = make_communicators(*side, world)) return why;
  ++open_sides;
  *out = side.release();
  return nullptr;
}

const char* address(void*, const void**, int64_t* bytes) {
  *bytes = 0;
  return nullptr;
}

const char* connect_peers(void*, const IngotPeer*) { return nullptr; }

void settle(IngotMessage* message, const char* failure) {
  message->failure = failure != nullptr ? failure : "";
  message->state = failure != nullptr ? INGOT_MESSAGE_FAILED : INGOT_MESSAGE_DONE;
}

// Classes, since the texts of codes are no static ones.
const char* failure_of(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  switch (kind) {
    case MPI_SUCCESS:
      return nullptr;
    case MPI_ERR_TRUNCATE:
      return "Message truncated";
    default:
      return "MPI reports that the message failed";
  }
}

void post(void* handle, IngotMessage* message) {
  Side& side = *static_cast<Side*>(handle);
  constexpr uint64_t kMarked = 1;  // in the lane: a message of send or receive, or its header
  const uint64_t lane = message->tag >> kTagRestBits & ((1U << kTagLaneBits) - 1);
  const uint64_t rest = message->tag >> ((lane & kMarked) != 0 ? kTagRestBits - kRestBits : 0);
  const uint64_t channel = message->tag >> (kTagRestBits + kTagLaneBits) & ((1U << kTagChannelBits) - 1);
  const uint64_t which = channel >> side.channel_bits;
  if (which >= side.communicators.size())
    return settle(message, "this MPI has too few tags for so many groups of ranks");
  if (message->bytes > INT_MAX) return settle(message, "a message over MPI has at most 2 GiB");
  const uint64_t in_tag = channel & ((1U << side.channel_bits) - 1);
  const int tag = static_cast<int>(in_tag << kLowBits | lane << kRestBits | (rest & ((1U << kRestBits) - 1)));
  message->state = INGOT_MESSAGE_POSTED;
  MPI_Request request = MPI_REQUEST_NULL;
  const int bytes = static_cast<int>(message->bytes);
  MPI_Comm communicator = side.communicators[which];
  const int code =
      message->send != 0
          ? MPI_Isend(message->data, bytes, MPI_BYTE, message->peer, tag, communicator, &request)
          : MPI_Irecv(message->data, bytes, MPI_BYTE, message->peer, tag, communicator, &request);
  if (code != MPI_SUCCESS) return settle(message, failure_of(code));
  side.requests.push_back(request);
  side.messages.push_back(message);
}

int32_t progress(void* handle) {
  Side& side = *static_cast<Side*>(handle);
  if (side.requests.empty()) return 0;
  side.indices.resize(side.requests.size());
  side.statuses.resize(side.requests.size());
  int done = 0;
  const int code = MPI_Testsome(static_cast<int>(side.requests.size()), side.requests.data(), &done,
                                side.indices.data(), side.statuses.data());
  if (done == MPI_UNDEFINED || done == 0) return 0;
  for (int i = 0; i < done; ++i) {
    const auto at = static_cast<size_t>(side.indices[static_cast<size_t>(i)]);
    const int own = code == MPI_ERR_IN_STATUS ? side.statuses[static_cast<size_t>(i)].MPI_ERROR : MPI_SUCCESS;
    settle(side.messages[at], failure_of(own));
    side.messages[at] = nullptr;
  }
  // MPI matches in the order of posting, which this order is not: the places may be filled from the end.
  for (size_t at = 0; at < side.messages.size();) {
    if (side.messages[at] != nullptr) {
      ++at;
      continue;
    }
    side.messages[at] = side.messages.back();
    side.requests[at] = side.requests.back();
    side.messages.pop_back();
    side.requests.pop_back();
  }
  return 1;
}

int32_t arm(void*) { return 1; }

void sleep_until(void* handle, int64_t limit_us) {
  constexpr int64_t kTestEveryUs = 200;
  static_cast<Side*>(handle)->sleeper.sleep(std::min(limit_us, kTestEveryUs), -1);
}

void wake(void* handle) { static_cast<Side*>(handle)->sleeper.wake(); }

const char* close_side(void* handle) {
  Side& side = *static_cast<Side*>(handle);
  if (!side.requests.empty()) return "messages are still on their way";
  for (MPI_Comm& communicator : side.communicators) MPI_Comm_free(&communicator);
  side.closed = true;
  --open_sides;
  return nullptr;
}

void stop(void* handle) {
  auto* side = static_cast<Side*>(handle);
  if (side->closed) delete side;
}

const IngotMessagesTable kTable = {INGOT_MESSAGES_VERSION,
                                   sizeof(IngotMessagesTable),
                                   "mpi",
                                   start,
                                   address,
                                   connect_peers,
                                   post,
                                   progress,
                                   arm,
                                   sleep_until,
                                   wake,
                                   close_side,
                                   stop};

}  // namespace

extern "C" __attribute__((visibility("default"))) const IngotMessagesTable* ingot_messages() {
  return &kTable;
}
