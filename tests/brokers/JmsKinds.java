import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.MapMessage;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.StreamMessage;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** A JMS producer that sends one message of each kind. */
public class JmsKinds {
    public static void main(String[] arguments) throws Exception {
        try (ActiveMQConnectionFactory factory =
                 new ActiveMQConnectionFactory(arguments[0], arguments[1], arguments[2]);
             Connection connection = factory.createConnection();
             Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            MessageProducer producer = session.createProducer(session.createQueue(arguments[3]));
            MapMessage map = session.createMapMessage();
            map.setInt("number", 5);
            map.setString("text", "x");
            producer.send(map);
            StreamMessage stream = session.createStreamMessage();
            stream.writeInt(5);
            stream.writeString("x");
            producer.send(stream);
            producer.send(session.createObjectMessage("object"));
            producer.send(session.createMessage());
            producer.send(session.createTextMessage("text"));
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes("bytes".getBytes("UTF-8"));
            producer.send(bytes);
        }
    }
}
