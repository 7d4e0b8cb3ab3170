// A plug-in for plugin_test.cc; INGOT_FAKE_VERSION says which version of the table it claims to have.
#include "backend/plugin_table.h"

namespace {

const char* start(int32_t, void**) { return nullptr; }
void stop(void*) {}
const char* allocate(void*, int64_t, void**) { return "the fake has no memory"; }
void release(void*, void*) {}
const char* bind(void*, const char*, void**) { return "the fake has no kernels"; }
const char* run(void*, void*, const IngotPluginCall*) { return nullptr; }
const char* synchronise(void*) { return nullptr; }

const IngotPluginTable kTable = {
    INGOT_FAKE_VERSION, sizeof(IngotPluginTable), "fake", "{}", start, stop, allocate, release, bind, run,
    synchronise};

}  // namespace

extern "C" const IngotPluginTable* ingot_plugin() { return &kTable; }
