def check(source, file):
    """The first syntax error of a module, or None. Compiles; executes nothing of it."""
    try:
        compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{file} line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{file} cannot be compiled: {error}"
    return None
