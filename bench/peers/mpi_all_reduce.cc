// The all-reduce of the MPI that is installed, for comm_bench: mpi_all_reduce BYTES ROUNDS FILE, by mpirun.

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "../all_reduce_timing.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  MPI_Init(&argc, &argv);
  const int64_t bytes = std::atoll(argv[1]);
  float* data = ingot::huge_pages(bytes);
  const double seconds = ingot::median_seconds(
      std::atoi(argv[2]), [] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] {
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) ingot::write_seconds(argv[3], seconds);
  std::free(data);
  return MPI_Finalize();
}
