#include <gtest/gtest.h>

#include "comm/contract_suite.h"

namespace ingot::comm {
namespace {

INSTANTIATE_TEST_SUITE_P(Local, TransportContract, ::testing::Values(WorldFactory{"local", make_local_world}),
                         [](const auto& factory) { return factory.param.name; });

}  // namespace
}  // namespace ingot::comm
