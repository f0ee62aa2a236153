import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Work that makes the virtual machine use malloc: threads, direct buffers, zlib, the compilers. */
public class Objects {
  static String digest(byte[] data) throws Exception {
    StringBuilder text = new StringBuilder();
    for (byte b : MessageDigest.getInstance("SHA-256").digest(data)) {
      text.append(String.format("%02x", b));
    }
    return text.substring(0, 16);
  }

  static String direct(int seed) {
    CRC32 crc = new CRC32();
    List<ByteBuffer> live = new ArrayList<>();
    for (int i = 0; i < 400; i++) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(1 + (seed * 131 + i * 977) % 70000);
      while (buffer.hasRemaining()) {
        buffer.put((byte) (i + seed));
      }
      buffer.flip();
      live.add(buffer);
    }
    live.forEach(crc::update);
    return Long.toHexString(crc.getValue());
  }

  public static void main(String[] args) throws Exception {
    Map<String, Integer> counts = new TreeMap<>();
    for (int i = 0; i < 200_000; i++) {
      counts.merge("key" + (i * 7919L % 5003), i % 10, Integer::sum);
    }
    byte[] text = counts.toString().getBytes(StandardCharsets.UTF_8);
    System.out.println("map " + counts.size() + " " + digest(text));

    byte[] packed = new byte[text.length];
    Deflater deflater = new Deflater();
    deflater.setInput(text);
    deflater.finish();
    int length = deflater.deflate(packed);
    deflater.end();
    Inflater inflater = new Inflater();
    inflater.setInput(packed, 0, length);
    byte[] back = new byte[text.length];
    System.out.println("zip " + inflater.inflate(back) + " " + digest(back));
    inflater.end();

    System.out.println(
        "stream "
            + IntStream.range(0, 100_000)
                .parallel()
                .mapToObj(i -> "n" + i % 997)
                .collect(Collectors.groupingByConcurrent(s -> s, Collectors.counting()))
                .values()
                .stream()
                .mapToLong(n -> n * n)
                .sum());

    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int n = 0; n < 8; n++) {
      int seed = n;
      tasks.add(() -> direct(seed));
    }
    for (Future<String> result : pool.invokeAll(tasks)) {
      System.out.println("direct " + result.get());
    }
    pool.shutdown();
  }
}
