import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * {@code java Work} is a job with the same output on every allocator; {@code java Work direct|objects MIB} holds
 * memory of one kind until standard input ends.
 */
public class Work {
  static void hold(String kind, int mib) throws Exception {
    List<Object> kept = new ArrayList<>();
    for (int i = 0; i < mib * 16; i++) {
      kept.add(kind.equals("direct") ? ByteBuffer.allocateDirect(65536) : new byte[65536]);
    }
    System.out.println("ready " + ProcessHandle.current().pid());
    while (System.in.read() >= 0) {}
    System.exit(kept.size() == mib * 16 ? 0 : 1);
  }

  /** Requests, packed and unpacked with zlib streams of their own, by direct buffers that are kept or replaced. */
  static void job() throws Exception {
    CRC32 crc = new CRC32();
    ByteBuffer[] kept = new ByteBuffer[200];
    int seed = 7;
    byte[] text = new byte[2000];
    byte[] packed = new byte[4000];
    for (int i = 0; i < 40000; i++) {
      seed = seed * 1103515245 + 12345;
      for (int n = 0; n < text.length; n++) {
        text[n] = (byte) ('a' + (seed >>> (n % 24)) % 26);
      }
      Deflater deflater = new Deflater();
      deflater.setInput(text);
      deflater.finish();
      int length = deflater.deflate(packed);
      deflater.end();
      int slot = i % kept.length;
      if (kept[slot] == null || i % 50 == 0) {
        kept[slot] = ByteBuffer.allocateDirect(4096 + (seed >>> 16));
      }
      ByteBuffer buffer = kept[slot].clear();
      buffer.put(packed, 0, length).flip();
      Inflater inflater = new Inflater();
      inflater.setInput(buffer);
      inflater.inflate(text);
      inflater.end();
      crc.update(text);
    }
    System.out.println("job " + Long.toHexString(crc.getValue()));
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 2) {
      hold(arguments[0], Integer.parseInt(arguments[1]));
    } else {
      job();
    }
  }
}
