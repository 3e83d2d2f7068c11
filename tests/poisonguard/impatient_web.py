"""The web process with a poison list that waits for nobody as long as it does in earnest."""

from poisonadmin import serve
from poisonadmin.poison_list.queries import feed

feed.KEEP_ALIVE_SECONDS = 0.2
feed.STUCK_SECONDS = 0.5

if __name__ == "__main__":
    serve.main()
