"""The page and the JSON API of `kvplan serve`: the library's own answers over HTTP. Needs starlette and uvicorn (the `web` extra)."""
