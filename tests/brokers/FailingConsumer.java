import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * A JMS consumer whose transactions roll back, each with up to so many messages, until so many deliveries have failed.
 * Prints for each delivery its time in milliseconds, the broker's delivery count and the property "number".
 */
public class FailingConsumer {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String queue = arguments[3];
        int deliveries = Integer.parseInt(arguments[4]);
        int batch = Integer.parseInt(arguments[5]);
        long quietMs = Long.parseLong(arguments[6]);
        try (ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url, arguments[1], arguments[2]);
             Connection connection = factory.createConnection();
             Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
             MessageConsumer consumer = session.createConsumer(session.createQueue(queue))) {
            connection.start();
            StringBuilder seen = new StringBuilder();
            for (int done = 1; done <= deliveries; done++) {
                Message message = consumer.receive(quietMs);
                if (message == null) {
                    break;
                }
                seen.append(System.currentTimeMillis()).append(' ')
                    .append(message.getIntProperty("JMSXDeliveryCount")).append(' ')
                    .append(message.getStringProperty("number")).append('\n');
                if (done % batch == 0 || done == deliveries) {
                    session.rollback();
                }
            }
            System.out.print(seen);
        }
    }
}
