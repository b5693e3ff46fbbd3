#!/bin/sh
# Prints the Rust bindings of csrc/abi.h and csrc/support/support.h. Needs bindgen (cargo install bindgen-cli) and libclang; the build needs neither,
# because what this prints is checked in:
#   build/bindings.sh > src/device/abi.rs
cd "$(dirname "$0")/.." || exit 1
cat <<'HEAD'
//! Bindings of csrc/abi.h and csrc/support/support.h, made by build/bindings.sh; the comments of those headers say what each item means.
#![allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)]

HEAD
exec bindgen csrc/support/support.h --rust-edition 2024 --rust-target 1.89 --disable-header-comment --no-doc-comments --merge-extern-blocks \
  --allowlist-item '(moebius|MOEBIUS)_.*' --blocklist-item 'MOEBIUS_(ABI|SUPPORT)_H' --default-enum-style moduleconsts \
  --with-derive-default --no-default 'moebius_(message|operands|unit)' --use-core -- -Icsrc
