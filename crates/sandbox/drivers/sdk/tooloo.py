"""Names of TooLoo for the SDK: `tooloo.llm`, `tooloo.storage` and `tooloo.visual`."""

import ringfence

__all__ = ["llm", "storage", "visual"]


class llm:
    """Models."""

    generate = staticmethod(ringfence.llm.generate)
    generate_code = staticmethod(ringfence.llm.generate_code)


class storage:
    """Artifacts."""

    search = staticmethod(ringfence.storage.search)
    get_artifact = staticmethod(ringfence.storage.get)

    @staticmethod
    def save_artifact(data):
        """Stores `{title, content, type, description, tags}`."""
        about = {name: data[name] for name in ("description", "tags") if name in data}
        if "type" in data:
            about["kind"] = data["type"]
        return ringfence.storage.save(data["title"], data["content"], **about)

    @staticmethod
    def update_artifact(artifact, content, changes=""):
        """Adds a version."""
        return ringfence.storage.update(artifact, content, changes)


class visual:
    """Pictures."""

    render_diagram = staticmethod(ringfence.visual.render_diagram)

    @staticmethod
    def generate_image(prompt):
        """A picture, if the server has a tool `image_generate`."""
        return ringfence.tools.call("image_generate", {"prompt": prompt})
