#pragma once
// Whether all ranks of a world of processes are about to do the same: program, configuration, data, compiled
// program. Fingerprints are compared; texts are exchanged only where they differ, to say what differs.

#include <string>
#include <vector>

#include "comm/comm.h"
#include "spec/spec.h"
#include "train/checkpointing.h"

namespace ingot::train {

// Something that ranks must have in common.
struct Fact {
  std::string subject;  // "configuration": rank 3 has another configuration than the others
  std::string text;     // what is compared, in lines; the first lines that differ are shown
  std::string remedy;   // "give all ranks the same file"
  int kin = 0;          // compared among ranks that say the same number, as a pipeline stage
};

// The same number of facts in the same order on every rank. Errors (kInvalid), the same sentence on every
// rank: of the first fact that differs, the ranks that differ from most others (from rank 0 where none is
// most), and how.
Result<void> agree(comm::Communicator& world, const std::vector<Fact>& facts,
                   const comm::CallOptions& options);

Fact program_fact();  // version and build of this executable
// What a configuration sets, but for what is a rank's own: its threads, and the run's folder, which rank 0
// chooses.
Fact configuration_fact(const spec::RunSpec& spec);
Fact data_fact(const DataIdentity& identity);
// What a configuration became, and the programs compiled from it, among ranks of one stage and as many
// threads.
std::vector<Fact> resolved_facts(const ResolvedRun& run, const RunPrograms& programs);

}  // namespace ingot::train
