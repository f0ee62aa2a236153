#!/bin/sh
# Runs a program under a limit of its address space.
#
# usage: under_limit.sh <limit in KB> <program> [arguments...]
limit=$1
shift
ulimit -v "$limit" || exit 1
exec "$@"
