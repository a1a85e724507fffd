package weir.test;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;

/** Calls EchoService as a consumer does: URL CALLS THREADS. */
public class Consumer {
    public static void main(String[] args) throws Exception {
        ApplicationConfig application = new ApplicationConfig("weir-test");
        application.setQosEnable(false);
        ReferenceConfig<EchoService> reference = new ReferenceConfig<>();
        reference.setApplication(application);
        reference.setInterface(EchoService.class);
        reference.setUrl(args[0]);
        EchoService service = reference.get();
        AtomicLong left = new AtomicLong(Long.parseLong(args[1]));
        Thread[] threads = new Thread[Integer.parseInt(args[2])];
        long begin = System.nanoTime();
        for (int at = 0; at < threads.length; at++) {
            threads[at] = new Thread(() -> {
                while (left.getAndDecrement() > 0) {
                    service.echo("hello");
                }
            });
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        System.out.printf("%.0f calls a second%n", Long.parseLong(args[1]) / seconds);
        System.exit(0);
    }
}
