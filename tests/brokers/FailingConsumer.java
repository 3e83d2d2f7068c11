import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * A JMS consumer whose transaction rolls back on every message, until so many rollbacks are done. Prints for each
 * delivery its time in milliseconds, the broker's delivery count and the property "number".
 */
public class FailingConsumer {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String queue = arguments[3];
        int rollbacks = Integer.parseInt(arguments[4]);
        long quietMs = Long.parseLong(arguments[5]);
        try (ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url, arguments[1], arguments[2]);
             Connection connection = factory.createConnection();
             Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
             MessageConsumer consumer = session.createConsumer(session.createQueue(queue))) {
            connection.start();
            StringBuilder seen = new StringBuilder();
            for (int done = 0; done < rollbacks; done++) {
                Message message = consumer.receive(quietMs);
                if (message == null) {
                    break;
                }
                seen.append(System.currentTimeMillis()).append(' ')
                    .append(message.getIntProperty("JMSXDeliveryCount")).append(' ')
                    .append(message.getStringProperty("number")).append('\n');
                session.rollback();
            }
            System.out.print(seen);
        }
    }
}
