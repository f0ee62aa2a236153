// Allocates in C through cgo, or in Go.
//
//	work             a job in C: the same output on every allocator
//	work c|go MIB    holds memory of one kind until standard input ends
package main

/*
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"unsafe"
)

const block = 4096

func hold(kind string, mib int) {
	var inC []unsafe.Pointer
	var inGo [][]byte
	for i := 0; i < mib<<20/block; i++ {
		if kind == "c" {
			inC = append(inC, C.memset(C.malloc(block), 1, block))
		} else {
			inGo = append(inGo, make([]byte, block))
			inGo[i][0] = 1
		}
	}
	fmt.Println("ready", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, pointer := range inC {
		C.free(pointer)
	}
	if len(inC)+len(inGo) != mib<<20/block {
		os.Exit(1)
	}
}

// job keeps 20,000 strings in C, each replaced by another length in its turn.
func job() {
	kept := make([]unsafe.Pointer, 20000)
	seed, sum := uint32(7), uint64(0)
	for i := 0; i < 10000000; i++ {
		seed = seed*1664525 + 1013904223
		slot := int(seed>>8) % len(kept)
		if kept[slot] != nil {
			sum += uint64(*(*byte)(kept[slot]))
			C.free(kept[slot])
		}
		kept[slot] = C.malloc(C.size_t(16 + (seed>>20)%500))
		*(*byte)(kept[slot]) = byte(i)
	}
	fmt.Println("job", sum)
}

func main() {
	if len(os.Args) == 3 {
		mib, _ := strconv.Atoi(os.Args[2])
		hold(os.Args[1], mib)
	} else {
		job()
	}
}
