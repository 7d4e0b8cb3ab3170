// libingot-ucx.so: messages over UCX's tag matching. One worker a rank, driven by one thread at a time.
// Endpoints are made from exchanged addresses when first used. Inside a node they have no error handling,
// which there excludes shared memory; between nodes a peer's end is reported, and what is posted to it or
// awaited from it fails.

#include <ucp/api/ucp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/messages_table.h"
#include "comm/sleeper.h"

namespace {

struct Side;

// What UCX's callbacks get: it outlives a message that was given up.
struct Request {
  Side* side = nullptr;
  IngotMessage* message = nullptr;
  void* handle = nullptr;                        // UCX's
  Request *previous = nullptr, *next = nullptr;  // in the list of posted ones, or of free ones
};

struct Peer {
  std::string address;
  bool same_node = false;
  ucp_ep_h endpoint = nullptr;
  const char* failure = nullptr;  // static
  Side* side = nullptr;
  int32_t rank = 0;
};

struct Side {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  std::vector<Peer> peers;
  // Requests are taken from blocks that are never freed before the side: a step allocates nothing.
  std::vector<std::unique_ptr<Request[]>> blocks;
  Request* free = nullptr;
  Request* posted = nullptr;
  int worker_fd = -1;
  ingot::comm::Sleeper sleeper;
  bool closed = false;
};

thread_local std::string sentence;

const char* failed(const char* what, ucs_status_t status) {
  sentence = std::string(what) + ": " + ucs_status_string(status);
  return sentence.c_str();
}

Request* take_request(Side& side, IngotMessage* message) {
  constexpr size_t kBlock = 256;
  if (side.free == nullptr) {
    side.blocks.push_back(std::make_unique<Request[]>(kBlock));
    for (size_t i = 0; i < kBlock; ++i) {
      Request& request = side.blocks.back()[i];
      request.side = &side;
      request.next = side.free;
      side.free = &request;
    }
  }
  Request* request = side.free;
  side.free = request->next;
  request->message = message;
  request->handle = nullptr;
  request->previous = nullptr;
  request->next = side.posted;
  if (side.posted != nullptr) side.posted->previous = request;
  side.posted = request;
  message->request = request;
  return request;
}

void unlink_posted(Side& side, Request* request) {
  (request->previous != nullptr ? request->previous->next : side.posted) = request->next;
  if (request->next != nullptr) request->next->previous = request->previous;
}

void settle(IngotMessage* message, const char* failure) {
  message->request = nullptr;
  message->failure = failure != nullptr ? failure : "";
  message->state = failure != nullptr ? INGOT_MESSAGE_FAILED : INGOT_MESSAGE_DONE;
}

const char* failure_of(ucs_status_t status) { return status == UCS_OK ? nullptr : ucs_status_string(status); }

// The end of a request, by its message or after that was given up.
void finish(Request* request, const char* failure) {
  Side& side = *request->side;
  IngotMessage* message = request->message;
  if (message != nullptr) {
    unlink_posted(side, request);
    settle(message, failure);
  }
  request->message = nullptr;
  request->next = side.free;
  side.free = request;
}

void on_sent(void* handle, ucs_status_t status, void* user_data) {
  finish(static_cast<Request*>(user_data), failure_of(status));
  ucp_request_free(handle);
}

void on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t*, void* user_data) {
  finish(static_cast<Request*>(user_data), failure_of(status));
  ucp_request_free(handle);
}

// Only between nodes. What is posted to or awaited from the peer fails now; a receive without a sender is
// taken back, other requests wait for a callback that may never come.
void on_peer_failure(void* user_data, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(user_data);
  Side& side = *peer.side;
  if (peer.failure != nullptr) return;
  peer.failure = ucs_status_string(status);
  for (Request* request = side.posted; request != nullptr;) {
    Request* next = request->next;
    IngotMessage* message = request->message;
    if (message->peer == peer.rank) {
      unlink_posted(side, request);
      settle(message, peer.failure);
      request->message = nullptr;
      if (message->send == 0) ucp_request_cancel(side.worker, request->handle);
    }
    request = next;
  }
}

const char* make_endpoint(Side& side, Peer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = peer.same_node ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_peer_failure, &peer};
  return failure_of(ucp_ep_create(side.worker, &params, &peer.endpoint));
}

const char* start(int32_t, int32_t world, void** out) {
  auto side = std::make_unique<Side>();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<size_t>(world);
  ucs_status_t status = ucp_init(&params, nullptr, &side->context);
  if (status != UCS_OK) return failed("UCX cannot be initialised", status);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(side->context, &worker, &side->worker);
  if (status == UCS_OK) status = ucp_worker_get_efd(side->worker, &side->worker_fd);
  if (status == UCS_OK) status = ucp_worker_get_address(side->worker, &side->address, &side->address_bytes);
  if (status != UCS_OK) return failed("UCX gives no worker", status);
  if (!side->sleeper.usable()) return "this process may open no more files";
  side->peers.resize(static_cast<size_t>(world));
  *out = side.release();
  return nullptr;
}

const char* address(void* handle, const void** bytes, int64_t* count) {
  const Side& side = *static_cast<Side*>(handle);
  *bytes = side.address;
  *count = static_cast<int64_t>(side.address_bytes);
  return nullptr;
}

const char* connect_peers(void* handle, const IngotPeer* peers) {
  Side& side = *static_cast<Side*>(handle);
  for (size_t rank = 0; rank < side.peers.size(); ++rank) {
    Peer& peer = side.peers[rank];
    peer.address.assign(static_cast<const char*>(peers[rank].address),
                        static_cast<size_t>(peers[rank].address_bytes));
    peer.same_node = peers[rank].same_node != 0;
    peer.side = &side;
    peer.rank = static_cast<int32_t>(rank);
  }
  return nullptr;
}

void post(void* handle, IngotMessage* message) {
  Side& side = *static_cast<Side*>(handle);
  Peer& peer = side.peers[static_cast<size_t>(message->peer)];
  const char* failure = peer.failure;
  if (failure == nullptr && message->send != 0 && peer.endpoint == nullptr)
    failure = make_endpoint(side, peer);
  if (failure != nullptr) return settle(message, failure);
  message->state = INGOT_MESSAGE_POSTED;
  Request* request = take_request(side, message);
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.user_data = request;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const auto bytes = static_cast<size_t>(message->bytes);
  void* started = nullptr;
  if (message->send != 0) {
    param.cb.send = on_sent;
    started = ucp_tag_send_nbx(peer.endpoint, message->data, bytes, message->tag, &param);
  } else {
    param.cb.recv = on_received;
    started = ucp_tag_recv_nbx(side.worker, message->data, bytes, message->tag, ~uint64_t{0}, &param);
  }
  // Null: done, and no callback comes. An error: not started.
  if (!UCS_PTR_IS_PTR(started)) return finish(request, failure_of(UCS_PTR_STATUS(started)));
  request->handle = started;
}

int32_t progress(void* handle) {
  return ucp_worker_progress(static_cast<Side*>(handle)->worker) != 0 ? 1 : 0;
}

int32_t arm(void* handle) { return ucp_worker_arm(static_cast<Side*>(handle)->worker) == UCS_OK ? 1 : 0; }

void sleep_until(void* handle, int64_t limit_us) {
  Side& side = *static_cast<Side*>(handle);
  side.sleeper.sleep(limit_us, side.worker_fd);
}

void wake(void* handle) { static_cast<Side*>(handle)->sleeper.wake(); }

// In order: every endpoint is flushed and closed. What does not end by the limit is left as it is.
const char* close_side(void* handle) {
  constexpr std::chrono::seconds kLimit{5};
  Side& side = *static_cast<Side*>(handle);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  side.closed = true;
  std::vector<void*> closing;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  for (Peer& peer : side.peers) {
    if (peer.endpoint == nullptr) continue;
    // One that left before us is seen as failed: nothing is left to flush there.
    param.flags = peer.failure != nullptr ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    void* request = ucp_ep_close_nbx(peer.endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    peer.endpoint = nullptr;
  }
  for (void* request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
      ucp_worker_progress(side.worker);
      if (std::chrono::steady_clock::now() < deadline) continue;
      side.closed = false;
      return "connections could not be closed in 5 s";
    }
    ucp_request_free(request);
  }
  return nullptr;
}

void stop(void* handle) {
  auto* side = static_cast<Side*>(handle);
  if (!side->closed) return;
  ucp_worker_release_address(side->worker, side->address);
  ucp_worker_destroy(side->worker);
  ucp_cleanup(side->context);
  delete side;
}

const IngotMessagesTable kTable = {INGOT_MESSAGES_VERSION,
                                   sizeof(IngotMessagesTable),
                                   "ucx",
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
