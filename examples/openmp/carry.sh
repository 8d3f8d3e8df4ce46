#!/bin/sh
# carry.sh PROGRAM FOLDER: copies a program, and the libraries that another machine may not have, to a folder that can be carried there:
# LD_LIBRARY_PATH=FOLDER FOLDER/PROGRAM. (libgpufs, LLVM's OpenMP and what LLVM needs; the C and C++ libraries must be as new there as here.)
set -eu
mkdir -p "$2"
cp "$1" "$2/"
ldd "$1" | awk '$2 == "=>" && $3 ~ "^/" { print $1, $3 }' | while read -r name path; do
    case $name in
        libc.so.* | libm.so.* | libgcc_s.so.* | libstdc++.so.* | libpthread.so.* | libdl.so.* | librt.so.*) ;;
        *) cp -L "$path" "$2/$name" ;;
    esac
done
