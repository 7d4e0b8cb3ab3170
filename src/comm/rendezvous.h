#pragma once
// Where ranks of separate processes find each other before they can send messages: rank 0 listens at an
// address that all know, and hands everybody what everybody brought. The address is "host:port" (MASTER_ADDR
// and MASTER_PORT), or a path with a '/' in it on one node. Nothing here is needed once connections exist.
//
// Errors (kFault) name ranks: those that have not come in time, two that come as one, one that was started
// for another world, one that left. All ranks that are there get the same sentence.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ingot::comm {

class RendezvousServer;

class Rendezvous {
 public:
  // Errors: also what base/socket.h says of an address that is wrong or taken.
  static Result<std::unique_ptr<Rendezvous>> join(int rank, int world, const std::string& address,
                                                  std::chrono::milliseconds limit);
  ~Rendezvous();

  // What each rank brought, in rank order; at most kMaxBytes from each. All ranks call it equally often.
  Result<std::vector<std::string>> exchange(const std::string& own, std::chrono::milliseconds limit);
  static constexpr size_t kMaxBytes = size_t{1} << 20;

 private:
  Rendezvous();
  struct Client;
  std::unique_ptr<RendezvousServer> server_;  // rank 0's
  std::unique_ptr<Client> client_;
};

}  // namespace ingot::comm
