"""``python -m ssp_env``: the ``ssp`` command."""

from ssp_env.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
