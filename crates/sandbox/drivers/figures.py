"""Open matplotlib figures become results, if user code has imported matplotlib.

Nothing here imports it: a session that does not plot does not pay for it.
"""

import io
import sys
import warnings


def quiet():
    """`plt.show()` under a file backend warns; here it is simply the end of the cell."""
    warnings.filterwarnings("ignore", message=".*(non-interactive|non-GUI backend).*", category=UserWarning)


def open_figures():
    """Open figures, oldest first."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = getattr(pyplot, "get_fignums", None)
    return [pyplot.figure(number) for number in numbers()] if callable(numbers) else []


def is_figure(value):
    """Whether a value is a matplotlib figure."""
    kind = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(kind, type) and isinstance(value, kind)


def png(figure):
    """The figure as PNG bytes."""
    target = io.BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    return target.getvalue()


def close(figure):
    """Closes a figure, so that the next cell does not show it again."""
    sys.modules["matplotlib.pyplot"].close(figure)
