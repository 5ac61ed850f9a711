"""Entry point of the console script and of ``python -m kgroup``."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    try:
        from kgroup.cli.main import run

        run()
    except KeyboardInterrupt:  # before the command line handles it
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
