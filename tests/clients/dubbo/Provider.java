package weir.test;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.common.Version;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.rpc.RpcContext;

/** A provider of EchoService: PORT REGISTRY KEY=VALUE... */
public class Provider implements EchoService {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 2; at < args.length; at++) {
            String[] pair = args[at].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        ApplicationConfig application = new ApplicationConfig("weir-test");
        application.setQosEnable(false);
        String check = options.remove("class-check");
        if (Version.getVersion().startsWith("3")) {
            set(application, "setSerializeCheckStatus", check == null ? "STRICT" : check);
        }
        String mode = options.remove("register-mode");
        if (mode != null) {
            set(application, "setRegisterMode", mode);
        }
        ProtocolConfig protocol = new ProtocolConfig(options.getOrDefault("protocol", "dubbo"));
        options.remove("protocol");
        protocol.setPort(Integer.parseInt(args[0]));
        protocol.setHost("127.0.0.1");
        RegistryConfig registry = new RegistryConfig(args[1]);
        ServiceConfig<EchoService> service = new ServiceConfig<>();
        service.setApplication(application);
        service.setRegistry(registry);
        service.setProtocol(protocol);
        service.setInterface(EchoService.class);
        service.setRef(new Provider());
        service.setVersion(options.remove("version"));
        service.setGroup(options.remove("group"));
        String threads = options.remove("threads");
        if (threads != null) {
            protocol.setThreadpool("fixed");
            protocol.setThreads(Integer.parseInt(threads));
            protocol.setQueues(0);
        }
        String weight = options.remove("weight");
        if (weight != null) {
            service.setWeight(Integer.parseInt(weight));
        }
        service.setParameters(options);
        service.export();
        System.out.println("ready");
        Thread.currentThread().join();
    }

    /** Sets what only Dubbo 3 has. */
    private static void set(ApplicationConfig application, String setter, String value)
            throws ReflectiveOperationException {
        ApplicationConfig.class.getMethod(setter, String.class).invoke(application, value);
    }

    /** What has come, in words: those of the attachment "expected", where there is one. */
    private static String checked(Object came) {
        String words = String.valueOf(came);
        String expected = RpcContext.getContext().getAttachment("expected");
        if (expected != null && !expected.equals(words)) {
            throw new IllegalStateException("not as expected: " + words);
        }
        return words;
    }

    @Override
    public String echo(String text) { return checked(text); }

    @Override
    public String told(Values.Person person) { return checked(person); }

    @Override
    public Values.Person changed(Values.Person person) {
        checked(person);
        person.setName(person.getName() + "!");
        person.setNumber(person.getNumber() + 1);
        return person;
    }

    @Override
    public Values.Person cyclic() {
        Values.Person person = new Values.Person();
        person.setName("ring");
        person.setFriend(person);
        return person;
    }

    @Override
    public List<Values.Person> people(int count) {
        checked(count);
        List<Values.Person> people = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Values.Person person = new Values.Person();
            person.setName("p" + number);
            person.setColor(Values.Color.values()[number % 3]);
            people.add(person);
        }
        return people;
    }

    @Override
    public String same(int number) { return checked("int " + number); }

    @Override
    public String same(long number) { return checked("long " + number); }

    @Override
    public String same(String text) { return checked("text " + text); }

    @Override
    public String colors(Values.Color one, List<Values.Color> others) {
        return checked(one + " of " + others);
    }

    @Override
    public String mapped(Map<String, Object> map) {
        return checked(map == null ? null : new TreeMap<>(map));
    }

    @Override
    public String numbers(int[] numbers, byte[] bytes, double half) {
        return checked(Arrays.toString(numbers) + " " + Arrays.toString(bytes) + " " + half);
    }

    @Override
    public Date later(Date date) {
        checked(date.getTime());
        return new Date(date.getTime() + 1000);
    }

    @Override
    public String big(String text) { return checked(text.length() + " " + text.hashCode()); }

    @Override
    public String nothing(Object none) {
        checked(none);
        return none == null ? null : none.toString();
    }

    @Override
    public void empty() { checked("empty"); }

    @Override
    public String fails(String how) throws Values.OwnException {
        if (how.equals("own")) {
            throw new Values.OwnException("it is not to be", 7);
        }
        throw new IllegalStateException("not in this state: " + how);
    }

    @Override
    public String slow(long millis) throws InterruptedException {
        Thread.sleep(millis);
        return checked(Collections.singletonList(millis));
    }

    @Override
    public String attached(String key) {
        return checked(RpcContext.getContext().getAttachment(key));
    }
}
