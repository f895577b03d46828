"""What redis-py does against three hosts: every host serves every key, in both protocols."""

import sys
import time

import redis

hosts = [
    redis.Redis(port=int(port), protocol=protocol, decode_responses=False)
    for protocol in (2, 3)
    for port in sys.argv[1:]
]
hosts[0].flushall()

for turn, host in enumerate(hosts):
    value = bytes(range(256)) * (1 + turn * 1000)
    assert host.set("value", value)
    assert all(other.get("value") == value for other in hosts)
    assert host.append("value", b"!") == len(value) + 1
    assert all(other.getrange("value", -1, -1) == b"!" for other in hosts)

for host in hosts:
    host.incr("counter", 10)
assert int(hosts[-1].get("counter")) == 10 * len(hosts)

for host in hosts:
    with host.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"pipelined:{number}", number)
        for number in range(1000):
            pipe.get(f"pipelined:{number}")
        replies = pipe.execute()
    assert replies[:1000] == [True] * 1000
    assert [int(reply) for reply in replies[1000:]] == list(range(1000))
assert len(set(hosts[1].scan_iter("pipelined:*"))) == 1000

assert hosts[0].set("short", "x", px=50) and hosts[1].get("short") == b"x"
assert hosts[0].set("short", "y", nx=True) is None
assert 0 < hosts[2].pttl("short") <= 50
time.sleep(0.06)
assert all(host.get("short") is None for host in hosts)
assert hosts[3].set("short", "y", nx=True, ex=100) and 98 <= hosts[4].ttl("short") <= 100
assert hosts[5].persist("short") and hosts[0].ttl("short") == -1

assert hosts[0].mget("short", "absent") == [b"y", None]
assert hosts[0].exists("short", "short", "absent") == 2
assert hosts[1].delete("short", "absent") == 1
assert hosts[0].info("server")["redis_mode"] == "standalone"
assert hosts[0].config_get("save") == {"save": ""} or hosts[0].config_get("save") == {b"save": b""}
try:
    hosts[0].lpush("list", 1)
    raise SystemExit("lists are not supported, and it does not say so")
except redis.ResponseError as error:
    assert "unknown command" in str(error)



def message_of(subscriber):
    """The next message, within seconds."""
    for _ in range(1000):
        message = subscriber.get_message(ignore_subscribe_messages=True, timeout=0.01)
        if message:
            return message["channel"], message["data"]
    raise SystemExit("a message has not come")


subscribers = []
for host in hosts:
    subscriber = host.pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("weather.*")
    while not subscriber.subscribed or len(subscriber.patterns) < 1:
        subscriber.get_message(timeout=0.01)
    for _ in range(2):
        assert subscriber.get_message(timeout=10)
    subscribers.append(subscriber)
for turn, host in enumerate(hosts):
    host.publish("news", f"item {turn}")
    host.publish("weather.here", f"rain {turn}")
    for subscriber in subscribers:
        assert message_of(subscriber) == (b"news", f"item {turn}".encode())
        assert message_of(subscriber) == (b"weather.here", f"rain {turn}".encode())
for number in range(1000):
    hosts[0].publish("news", number)
for subscriber in subscribers:
    assert [int(message_of(subscriber)[1]) for _ in range(1000)] == list(range(1000))
    subscriber.close()

# Locks of redis-py are scripts; a lock that one host's client has keeps all others out.
lock = hosts[0].lock("lock", timeout=60)
assert lock.acquire(blocking=False)
assert all(not host.lock("lock", timeout=60).acquire(blocking=False) for host in hosts)
lock.extend(60)
lock.release()
assert hosts[4].lock("lock", timeout=60).acquire(blocking=False)
count = "redis.call('set', KEYS[1], (redis.call('get', KEYS[1]) or 0) + ARGV[1])"
scripts = [host.register_script(count) for host in hosts]
for script in scripts * 50:
    script(keys=["counted"], args=[2])
assert int(hosts[1].get("counted")) == 100 * len(hosts)

# A client that keeps values is told of changes by each host.
from redis.cache import CacheConfig

kept = redis.Redis(port=int(sys.argv[1]), protocol=3, cache_config=CacheConfig())
for turn, host in enumerate(hosts):
    host.set("kept", turn)
    for _ in range(1000):
        if kept.get("kept") == str(turn).encode():
            break
        time.sleep(0.01)
    else:
        raise SystemExit(f"a value that is kept stays old: {turn}")
assert kept.get_cache().size > 0

hosts[2].flushall()
assert all(host.dbsize() == 0 for host in hosts)
print(f"redis-py {redis.__version__}: well")
