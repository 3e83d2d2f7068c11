"""The channels on which the database tells sleepers that there is work (triggers in store/migrations/0001_tables.sql).

A notification says only that a check is worth while. Waiting processes check from time to time all the same.
"""

# A message is due sooner than before, a node has ended, or a claim has: there may be something to claim or to settle.
DUE = "poisonadmin_due"
# A claim has shards that no node has taken.
SHARD = "poisonadmin_shard"
# The poison list has changed; the notification names the newest change.
POISON_LIST = "poison_list"
