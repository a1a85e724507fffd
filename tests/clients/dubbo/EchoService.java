package weir.test;

import java.util.Date;
import java.util.List;
import java.util.Map;

/** What a provider offers. */
public interface EchoService {
    String echo(String text);

    /** In words what has come, so that the caller can tell that it came whole. */
    String told(Values.Person person);

    Values.Person changed(Values.Person person);

    /** A person whose friend it is itself. */
    Values.Person cyclic();

    List<Values.Person> people(int count);

    String same(int number);

    String same(long number);

    String same(String text);

    String colors(Values.Color one, List<Values.Color> others);

    String mapped(Map<String, Object> map);

    String numbers(int[] numbers, byte[] bytes, double half);

    Date later(Date date);

    String big(String text);

    String nothing(Object none);

    void empty();

    String fails(String how) throws Values.OwnException;

    String slow(long millis) throws InterruptedException;

    /** What has come beside the arguments. */
    String attached(String key);
}
