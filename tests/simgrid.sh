#!/bin/bash
# The exchange of 10 MB of gradients on clusters that SimGrid simulates (Debian package
# libsimgrid-dev), against the formula of train/scaling.hpp. 1,024 ranks take 4 minutes and 2 GB; it
# is no part of CI. tests/simgrid.sh BUILD-FOLDER [RANKS…]
set -eu
cd "$(dirname "$0")/.."
command -v smpicxx > /dev/null || { echo 'skipped: there is no smpicxx (Debian package libsimgrid-dev)'; exit 0; }
build=$(realpath "${1:-build}")
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
smpicxx -std=c++20 -O1 -fPIC -fopenmp -I. -Wl,--wrap=aligned_alloc,--wrap=free tests/simgrid.cpp train/comm_no_mpi.cpp \
  -o "$work/exchange" -Wl,--start-group "$build"/train/libtete_{train,bucket}.a \
  "$build"/{attention/libtete_attention,nn/libtete_nn}.a "$build"/core/lib*.a -Wl,--end-group -lopenblas -lgomp
cd "$work"
for ranks in "${@:-64}"; do
  cat > cluster.xml << END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="h" suffix="" radical="0-$((ranks - 1))" speed="1Gf" bw="125MBps" lat="12.5us"
           topology="FLAT" sharing_policy="SPLITDUPLEX"/>
</platform>
END
  seq -f 'h%g' 0 $((ranks - 1)) > hosts
  OMP_NUM_THREADS=1 smpirun -np "$ranks" -platform cluster.xml -hostfile hosts --cfg=smpi/simulate-computation:no \
    --cfg=smpi/privatization:no --cfg=contexts/stack-size:512 --log=root.thresh:warning ./exchange 25e-6 125e6
done
