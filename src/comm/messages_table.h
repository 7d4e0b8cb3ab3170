#pragma once
// The table of a transport between processes that is a shared library (libingot-ucx.so, libingot-mpi.so):
// comm::Messages in C. No C++ type crosses it, so that a plug-in built by another compiler works. A plug-in
// exports one function:
//
//   extern "C" const IngotMessagesTable* ingot_messages(void);
//
// Any change of this file that an old plug-in cannot bear raises INGOT_MESSAGES_VERSION.

#include <stdint.h>

extern "C" {

#define INGOT_MESSAGES_VERSION 1
#define INGOT_MESSAGES_SYMBOL "ingot_messages"

enum { INGOT_MESSAGE_IDLE, INGOT_MESSAGE_POSTED, INGOT_MESSAGE_DONE, INGOT_MESSAGE_FAILED };

// comm::Message, with the same rules.
typedef struct IngotMessage {
  int32_t peer;
  uint8_t send;
  uint64_t tag;
  void* data;
  int64_t bytes;
  uint8_t state;        // INGOT_MESSAGE_...
  const char* failure;  // static
  void* request;        // the plug-in's own
} IngotMessage;

// What a rank needs to reach another.
typedef struct IngotPeer {
  const void* address;
  int64_t address_bytes;
  int32_t same_node;  // shares memory and process ids with this rank
} IngotPeer;

// Functions that can fail return null on success, else a sentence that lives until the next call on that
// thread. `side` is one rank's side of the transport; sleep() and wake() may be called beside another call.
typedef struct IngotMessagesTable {
  uint32_t version;      // INGOT_MESSAGES_VERSION; read before anything else
  uint32_t table_bytes;  // sizeof(IngotMessagesTable)
  const char* name;      // "ucx"
  // Makes this process, or one more rank in it, rank `rank` of `world`.
  const char* (*start)(int32_t rank, int32_t world, void** side);
  // Its address for the others, of the side's own memory. 0 bytes: the transport knows its peers by rank.
  const char* (*address)(void* side, const void** address, int64_t* bytes);
  // The peers of all ranks, in rank order, its own included; copied.
  const char* (*connect)(void* side, const IngotPeer* peers);
  void (*post)(void* side, IngotMessage* message);
  int32_t (*progress)(void* side);
  int32_t (*arm)(void* side);
  void (*sleep)(void* side, int64_t limit_us);
  void (*wake)(void* side);
  const char* (*close)(void* side);
  // After close() frees everything; without it, as after a failure, leaves the transport's memory and
  // connections as they are: a peer may still write there.
  void (*stop)(void* side);
} IngotMessagesTable;

}  // extern "C"
