"""`python -m workers.spark.warm_up`: a session and a task, as each start of a Spark worker has them."""

from workers.spark.session import start_session

if __name__ == "__main__":
    start_session("warm-up").range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()
