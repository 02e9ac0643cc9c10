import threading
import time

import pytest

from poolsieve.images.budget import Budget


def test_no_more_is_held_than_there_is_and_nobody_waits_for_ever():
    budget, lock = Budget(10), threading.Lock()
    held, most, done = 0, 0, []

    def work(amount):
        nonlocal held, most
        with budget.hold(amount):
            with lock:
                held += min(amount, 10)
                most = max(most, held)
            time.sleep(0.002)
            with lock:
                held -= min(amount, 10)
        done.append(amount)

    amounts = [1, 9, 3, 10, 4, 50, 2, 7] * 5
    threads = [threading.Thread(target=work, args=(amount,)) for amount in amounts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted(amounts)
    assert most <= 10


def test_a_large_one_is_not_overtaken_for_ever():
    budget, order = Budget(10), []
    first = budget.hold(6)
    first.__enter__()

    def work(name, amount):
        with budget.hold(amount):
            order.append(name)

    large = threading.Thread(target=work, args=("large", 10))
    large.start()
    while not budget._waiting:
        time.sleep(0.001)
    small = threading.Thread(target=work, args=("small", 1))  # would fit at once
    small.start()
    while len(budget._waiting) < 2:
        time.sleep(0.001)
    first.__exit__(None, None, None)
    large.join()
    small.join()
    assert order == ["large", "small"]


def test_what_is_held_is_given_back_when_something_fails():
    budget = Budget(10)
    with pytest.raises(KeyError), budget.hold(10):
        raise KeyError
    with budget.hold(10):
        pass
