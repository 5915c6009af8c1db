# Installs the Debian packages that are missing; does nothing where none is. Read by the scripts
# beside it, with `.`.

# need PACKAGE COMMAND…: the package is missing if the command fails.
missing=
need() {
  local package=$1
  shift
  "$@" > /dev/null 2>&1 || missing="$missing $package"
}

install_missing() {
  [ -n "$missing" ] || return 0
  echo "Installing from Debian's packages:$missing"
  if ! command -v apt-get > /dev/null; then
    echo "There is no apt-get here. Please install the like of:$missing" >&2
    return 1
  fi
  local root=
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
      echo "That takes root. Please run as root: apt-get install$missing" >&2
      return 1
    fi
    root=sudo
    [ -t 0 ] || root='sudo -n'  # nobody is there to type a password
  fi
  $root apt-get -qq -o Acquire::Retries=3 update < /dev/null &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 \
      -o Dpkg::Use-Pty=0 install --no-install-recommends $missing < /dev/null > /dev/null || {
    echo "apt-get could not install:$missing" >&2
    return 1
  }
  missing=
}

need_to_build() {
  need g++ command -v g++
  need meson command -v meson
  need ninja-build command -v ninja
  need pkg-config command -v pkg-config
  need libopenblas-openmp-dev pkg-config --exists openblas
  need libcli11-dev pkg-config --exists CLI11
  need nlohmann-json3-dev pkg-config --exists nlohmann_json
  need doctest-dev test -e /usr/include/doctest/doctest.h -o -e /usr/local/include/doctest/doctest.h
}

# To build the Vulkan device, and to test it without a card.
need_vulkan() {
  need glslc command -v glslc
  need libvulkan-dev pkg-config --exists vulkan
  need mesa-vulkan-drivers eval 'ls /usr/share/vulkan/icd.d/lvp_icd.*'
  need vulkan-validationlayers test -e \
    /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
}

# Clang with its sanitizers and libFuzzer, and the OpenMP that it takes.
need_clang() {
  need clang command -v clang++
  need libomp-dev sh -c 'ls /usr/lib/llvm-*/lib/libomp.so'
  need libclang-rt-14-dev sh -c 'ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a'
}

# Runs of several processes: the MPI that the build takes, unless it is told another.
need_mpi() {
  need libopenmpi-dev pkg-config --exists ompi-c
  need openmpi-bin command -v mpirun.openmpi
}

# configure FOLDER [MESON OPTION…]: once.
configure() {
  [ -e "$1/build.ninja" ] || meson setup "$@" < /dev/null
}

# build FOLDER [TARGET…]: everything, where no target is named.
build() {
  ninja -C "$@" < /dev/null
}
