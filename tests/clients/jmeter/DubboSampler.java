import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.rpc.service.GenericService;
import org.apache.jmeter.protocol.java.sampler.AbstractJavaSamplerClient;
import org.apache.jmeter.protocol.java.sampler.JavaSamplerContext;
import org.apache.jmeter.samplers.SampleResult;

/** Calls a method with a string. Parameters: url, interface, method, argument, cached. */
public class DubboSampler extends AbstractJavaSamplerClient {
    private static final ApplicationConfig APPLICATION = new ApplicationConfig("jmeter");
    private static GenericService shared;

    static {
        APPLICATION.setQosEnable(false);
    }

    private static ReferenceConfig<GenericService> reference(JavaSamplerContext context) {
        ReferenceConfig<GenericService> reference = new ReferenceConfig<>();
        reference.setApplication(APPLICATION);
        reference.setInterface(context.getParameter("interface"));
        reference.setUrl(context.getParameter("url"));
        reference.setGeneric("true");
        reference.setCheck(false);
        return reference;
    }

    /** One reference for all threads: its connection and its proxy are made once. */
    private static synchronized GenericService shared(JavaSamplerContext context) {
        if (shared == null) {
            shared = reference(context).get();
        }
        return shared;
    }

    @Override
    public SampleResult runTest(JavaSamplerContext context) {
        boolean cached = context.getParameter("cached").equals("true");
        ReferenceConfig<GenericService> own = cached ? null : reference(context);
        // Whatever is waited for in front of sampleStart is in no latency.
        GenericService service = cached ? shared(context) : own.get();
        SampleResult result = new SampleResult();
        result.sampleStart();
        try {
            Object answer = service.$invoke(
                context.getParameter("method"),
                new String[] {"java.lang.String"},
                new Object[] {context.getParameter("argument")});
            result.setResponseData(String.valueOf(answer), "UTF-8");
            result.setSuccessful(true);
        } catch (RuntimeException error) {
            result.setResponseMessage(error.toString());
            result.setSuccessful(false);
        } finally {
            result.sampleEnd();
            if (own != null) {
                own.destroy();
            }
        }
        return result;
    }
}
