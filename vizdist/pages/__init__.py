"""One view a file: `NAME`, `PATH`, `layout(library, view)`, `register(app, library)`.

`create_app` lists the modules in a tuple. A layout holds the words and the frame of a page; what
depends on step or theme is filled in by callbacks with the stores of components/shell.py as inputs
(`step` null means the run's default step). Dash is told of the elements that callbacks name by id;
all others are drawn at once (components/plain.py) and are for scripts. Pages never call each other.
"""
