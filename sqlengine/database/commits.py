"""The end of an epoch: what a session has changed is there for all, with what views make of it.

A short one is applied with the lock held. One that may take long keeps only what it touches: the tables that it changes
and the views above them. Others commit beside it, in epochs before it, and readers see the version before. Its own epoch
is numbered, logged and shown when all is done, with the lock held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from runtime.core.cancellation import at_hand
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.open_epoch import OpenEpoch
from sqlengine.database.session import Session

__all__ = ["check_twins", "commit", "together"]

T = TypeVar("T")


def together(session: Session, run: Callable[[], T], storage: ObjectPath) -> T:
    """What a short call gives or raises that changes one table, if anything, as an epoch of its own.

    The calls of many threads that wait for the lock are carried out by one of them, and synced together. By itself is one
    carried out in a database that keeps nothing, on the main thread, which Ctrl-C may interrupt while it works for others,
    and where the views above the table may take long.
    """
    durable, views = session.durable, session.views
    if durable is None or views.lock.held or threading.current_thread() is threading.main_thread():
        return run()
    chain = at_hand.chain

    def governed() -> tuple[T] | None:
        if views.may_take_long({storage}, 1):
            return None
        before, at_hand.chain = at_hand.chain, chain
        logged = durable.folder.epoch
        try:
            made = run()
        finally:
            at_hand.chain = before
        # Where it has logged nothing, the statement may go on and do so in another way.
        session.logged = durable.folder.epoch if durable.folder.epoch > logged else None
        return (made,)

    done = views.lock.together(governed, lambda: views.touched({storage}), durable.settle)
    return run() if done is None else done[0]


def commit(session: Session, epoch: OpenEpoch) -> None:
    """Apply an epoch of a session, which has none then, and show it. Raises what `OpenEpoch.check` raises, and Stopped:
    then nothing has changed."""
    views, lock = session.views, session.views.lock
    if session.makes_table:
        # Nobody else has the table.
        with session.without_lock():
            for table in epoch.apply():
                table.publish()
        return
    with session.alone(lambda: views.touched(epoch.storages)):
        long = views.may_take_long(epoch.storages, epoch.rows)
        if not (long and lock.held_once and session.harness.publish_cut is None):
            if long:
                views.freshen(views.touched(epoch.storages))
            epoch.check(session.stored)
            tables = epoch.apply()
            session.epoch = None
            session.publish(tables)
            return
        lock.give_way()
        epoch.check(session.stored)
        tables = epoch.tables
        part = views.touched(epoch.storages)
        try:
            with views.apart(part, *tables):
                epoch.apply()
                for table in tables:
                    table.pass_on()
                views.follow(part)
        finally:
            # What has been applied counts, whoever interrupts the views.
            if epoch.applied:
                session.epoch = None
                session.publish(tables)


def check_twins(session: Session, epoch: OpenEpoch, mark: Mapping[ObjectPath, int]) -> None:
    """After a statement of an open epoch: raise BrokenConstraint E2025, and forget what has come since the mark, when it has
    brought values that may be there once."""
    changed = epoch.new_twins(mark)
    if not changed:
        return
    try:
        with session.alone(lambda: session.views.touched(set(changed))):
            for changes in changed.values():
                changes.check_twins()
    except BaseException:
        epoch.back_to(mark)
        raise
