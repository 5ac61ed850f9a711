"""Entry point of the console script and of ``python -m kgroup``."""

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from kgroup.cli.main import run

    run()


if __name__ == "__main__":
    main()
