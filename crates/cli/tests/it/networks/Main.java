import java.io.*;
import java.net.*;
import java.net.http.*;
import java.util.List;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Callable<Integer>> parts = List.of(() -> 20, () -> 22);
        int sum = 0;
        for (Future<Integer> part : threads.invokeAll(parts)) sum += part.get();
        threads.shutdown();
        try (ServerSocket server = new ServerSocket(0, 4, InetAddress.getLoopbackAddress())) {
            Thread answer = new Thread(() -> {
                try (Socket peer = server.accept()) {
                    peer.getInputStream().read(new byte[4096]);
                    peer.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".getBytes());
                } catch (IOException problem) { throw new UncheckedIOException(problem); }
            });
            answer.start();
            URI address = URI.create("http://127.0.0.1:" + server.getLocalPort() + "/");
            String body = HttpClient.newHttpClient().send(HttpRequest.newBuilder(address).build(),
                HttpResponse.BodyHandlers.ofString()).body();
            answer.join();
            System.out.println(sum + " " + body);
        }
    }
}
