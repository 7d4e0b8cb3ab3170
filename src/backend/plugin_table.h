#pragma once
// The table of a vendor backend, a shared library (libingot-cuda.so, ...): opened when asked for, through one
// versioned C table. No C++ type crosses it, so that a plug-in built by another compiler works. A plug-in
// exports one function:
//
//   extern "C" const IngotPluginTable* ingot_plugin(void);
//
// Any change of this file that an old plug-in cannot bear raises INGOT_PLUGIN_VERSION.

#include <cstddef>
#include <cstdint>

extern "C" {

#define INGOT_PLUGIN_VERSION 1
#define INGOT_PLUGIN_SYMBOL "ingot_plugin"

typedef struct IngotPluginTensor {
  void* data;
  uint8_t dtype;  // tensor::DType
  int32_t rank;
  int64_t extents[5];
} IngotPluginTensor;

typedef struct IngotPluginCall {
  const IngotPluginTensor* inputs;
  int32_t input_count;
  const IngotPluginTensor* outputs;
  int32_t output_count;
  int32_t overwrite;  // accumulating gradients: write instead of add
  int32_t group_index;
  void* workspace;
  int64_t workspace_bytes;
  uint64_t seed;
} IngotPluginCall;

// Functions that can fail return null on success, else a sentence that lives until the next call on that
// thread.
typedef struct IngotPluginTable {
  uint32_t version;         // INGOT_PLUGIN_VERSION; read before anything else
  uint32_t table_bytes;     // sizeof(IngotPluginTable)
  const char* name;         // "cuda"
  const char* target_json;  // graph::Target as JSON
  const char* (*start)(int32_t device, void** backend);
  void (*stop)(void* backend);
  const char* (*allocate)(void* backend, int64_t bytes, void** memory);
  void (*release)(void* backend, void* memory);
  // `node_json`: op, attributes, operand types and shapes. The state is handed to every run and lives until
  // stop.
  const char* (*bind)(void* backend, const char* node_json, void** state);
  const char* (*run)(void* backend, void* state, const IngotPluginCall* call);
  const char* (*synchronise)(void* backend);
} IngotPluginTable;

}  // extern "C"
