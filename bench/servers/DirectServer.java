import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import sun.misc.Unsafe;

/**
 * java DirectServer PORT: answers HTTP out of direct buffers, which lie outside of the heap of the JVM, in malloc's. As
 * servers with pools of buffers do, it frees them itself; the last 256 of 1 KiB to 128 KiB are kept.
 */
public final class DirectServer {
    private static final int KEPT = 256;
    private static final ByteBuffer[] kept = new ByteBuffer[KEPT];
    private static final AtomicLong number = new AtomicLong();
    private static final Unsafe unsafe = unsafe();

    private DirectServer() {}

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static ByteBuffer filled(int size, long of) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(size);
        while (buffer.remaining() >= Long.BYTES) buffer.putLong(of);
        buffer.flip();
        return buffer;
    }

    private static void answer(HttpExchange exchange) throws IOException {
        long mine = number.incrementAndGet();
        ByteBuffer scratch = filled(4096, mine);
        ByteBuffer buffer = filled(1024 << (mine % 8), mine);
        byte[] bytes = new byte[Math.min(buffer.remaining(), 2048)];
        buffer.duplicate().get(bytes);
        ByteBuffer dropped;
        synchronized (kept) {
            int at = (int) (mine * 7 % KEPT);
            dropped = kept[at];
            kept[at] = buffer;
        }
        unsafe.invokeCleaner(scratch);
        if (dropped != null) unsafe.invokeCleaner(dropped);
        exchange.sendResponseHeaders(200, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    public static void main(String[] words) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 256);
        server.createContext("/", DirectServer::answer);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
    }
}
