"""Virtual time."""

from __future__ import annotations

from kgroup.simulation.clock import Clock


def test_things_happen_in_order_of_time_then_of_scheduling() -> None:
    clock = Clock()
    happened: list[tuple[int, str]] = []

    def note(name: str) -> None:
        happened.append((clock.now_ms, name))

    clock.after(20, lambda: note("late"))
    clock.after(10, lambda: note("first"))

    def schedule() -> None:
        clock.after(0, lambda: note("third"))

    clock.after(10, schedule)
    clock.after(10, lambda: note("second"))
    clock.run(15)
    assert happened == [(10, "first"), (10, "second"), (10, "third")]
    assert clock.now_ms == 15
    clock.run(30)
    assert happened[3:] == [(20, "late")]


def test_what_is_cancelled_does_not_happen() -> None:
    clock = Clock()
    happened: list[str] = []
    timer = clock.after(10, lambda: happened.append("no"))
    clock.after(20, lambda: happened.append("yes"))
    timer.cancel()
    assert clock.next_ms == 20
    assert clock.step()
    assert happened == ["yes"]
    timer.cancel()  # too late, and no error
    assert clock.next_ms is None
    assert not clock.step()
