using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.InteropServices;

/// work.dll is a job with the same output on every allocator; work.dll native|objects MIB holds memory of one
/// kind until standard input ends.
static class Work {
  static int Hold(string kind, int mib) {
    var blocks = new List<IntPtr>();
    var objects = new List<byte[]>();
    for (int i = 0; i < mib * 16; i++) {
      if (kind == "native") {
        IntPtr block = Marshal.AllocHGlobal(65536);
        for (int page = 0; page < 65536; page += 4096) Marshal.WriteByte(block, page, 1);
        blocks.Add(block);
      } else {
        objects.Add(new byte[65536]);
      }
    }
    Console.WriteLine("ready " + Process.GetCurrentProcess().Id);
    while (Console.In.Read() >= 0) { }
    foreach (IntPtr block in blocks) Marshal.FreeHGlobal(block);
    return blocks.Count + objects.Count == mib * 16 ? 0 : 1;
  }

  /// Native blocks that replace each other, beside strings of the runtime's own.
  static int Job() {
    var kept = new IntPtr[20000];
    var words = new Dictionary<string, long>();
    uint seed = 7;
    long sum = 0;
    for (int i = 0; i < 10000000; i++) {
      seed = seed * 1664525 + 1013904223;
      int slot = (int)((seed >> 8) % kept.Length);
      if (kept[slot] != IntPtr.Zero) {
        sum += Marshal.ReadByte(kept[slot]);
        Marshal.FreeHGlobal(kept[slot]);
      }
      kept[slot] = Marshal.AllocHGlobal((int)(16 + (seed >> 20) % 500));
      Marshal.WriteByte(kept[slot], (byte)i);
      if (i % 50 == 0) words["word" + seed % 5003] = sum;
    }
    Console.WriteLine("job " + sum + " " + words.Count);
    return 0;
  }

  static int Main(string[] arguments) {
    return arguments.Length == 2 ? Hold(arguments[0], int.Parse(arguments[1])) : Job();
  }
}
