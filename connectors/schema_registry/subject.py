"""What formats with a registry share: the subject whose schema tells the columns, and under which one is registered."""

from __future__ import annotations

from connectors.schema_registry.client import NoSchema, RegisteredSchema, RegistryClient
from connectors.schema_registry.options import PROPERTIES, SUBJECT
from runtime.core.errors import FormatError, OptionError

__all__ = ["OfSubject"]


class OfSubject:
    """A format of messages whose schemas are in a registry. `registers`: a schema that the subject does not have is registered."""

    name: str

    def __init__(self, client: RegistryClient, subject: str, *, registers: bool) -> None:
        self.client = client
        self.subject = subject
        self.registers = registers

    def needed_subject(self) -> str:
        """Raises OptionError E1504 where the table does not name it."""
        if not self.subject:
            raise OptionError(
                f"format '{self.name}' needs the option '{self.name}.{SUBJECT.key}'",
                code="E1504",
                hint=f"set it to {SUBJECT.description}",
            )
        return self.subject

    def newest(self) -> RegisteredSchema:
        """The newest schema of the subject; raises FormatError E3230 where there is none."""
        subject = self.needed_subject()
        try:
            return self.client.latest(subject)
        except NoSchema as error:
            raise self.untold(error) from error

    def untold(self, error: Exception) -> FormatError:
        """The error for a schema that does not tell the columns."""
        return FormatError(
            f"the columns of subject {self.subject} cannot be told: {error}", code="E3230", hint="declare the columns"
        )

    def registered(self, kind: str, text: str) -> int:
        """The id of a schema that is written."""
        try:
            return self.client.register(self.needed_subject(), kind, text, made=self.registers)
        except NoSchema as error:
            raise OptionError(
                f"subject {self.subject} does not have the schema that is written: {error}",
                code="E1500",
                hint=f"register it, or leave '{self.name}.{PROPERTIES}auto.register.schemas' out",
            ) from error
