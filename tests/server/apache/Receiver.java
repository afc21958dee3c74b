import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Without a receiver Apache Kafka serves no telemetry: this one takes what is pushed, and drops it. */
public class Receiver implements MetricsReporter, ClientTelemetry {
    public void init(List<KafkaMetric> metrics) {}
    public void metricChange(KafkaMetric metric) {}
    public void metricRemoval(KafkaMetric metric) {}
    public void close() {}
    public void configure(Map<String, ?> settings) {}

    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> payload.data();
    }
}
