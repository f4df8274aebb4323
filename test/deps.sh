#!/usr/bin/env bash
# Installs what muster runs on, from Debian's packages, where it is missing; with
# the argument "tests" also what the tests run in their containers.
set -euo pipefail

missing=()
need() { # need PACKAGE FILE...: PACKAGE is there when one of the files is
  local package=$1 file
  shift
  for file in "$@"; do [ -e "$file" ] && return; done
  missing+=("$package")
}
need containerd /usr/bin/containerd /usr/local/bin/containerd
need runc /usr/sbin/runc /usr/bin/runc /usr/local/sbin/runc
need containernetworking-plugins /usr/lib/cni/bridge /opt/cni/bin/bridge
need iptables /usr/sbin/iptables /sbin/iptables
need iproute2 /usr/sbin/ip /sbin/ip /bin/ip

if [ "${1:-}" = tests ]; then
  need busybox-static /bin/busybox /usr/bin/busybox
fi

[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "missing: ${missing[*]}; as root: apt-get install -y ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
