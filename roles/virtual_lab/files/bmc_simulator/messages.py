# Redfish messages: the entries of the DMTF Base registry that this service uses, and the bodies made of them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

REGISTRY = "Base.1.19"

# MessageId: (HTTP status, severity, text with %1, %2...). Names and meaning: DMTF DSP8011; the texts are our own.
MESSAGES: dict[str, tuple[int, str, str]] = {
    "Success": (200, "OK", "The request was carried out."),
    "NoOperation": (400, "Warning", "The request holds nothing to change."),
    "GeneralError": (400, "Critical", "The request failed."),
    "InternalError": (500, "Critical", "The request failed because of an internal error."),
    "MalformedJSON": (400, "Critical", "The body is not a valid JSON object."),
    "EmptyJSON": (400, "Warning", "The body is an empty JSON object."),
    "PropertyUnknown": (400, "Warning", "The property %1 is not a property of this resource."),
    "PropertyNotWritable": (400, "Warning", "The property %1 is read only."),
    "PropertyMissing": (400, "Warning", "The property %1 is required."),
    "PropertyValueTypeError": (400, "Warning", "The value '%1' of the property %2 has the wrong type."),
    "PropertyValueNotInList": (
        400,
        "Warning",
        "The value '%1' of the property %2 is not in the list of acceptable values.",
    ),
    "PropertyValueFormatError": (400, "Warning", "The value '%1' of the property %2 has the wrong format."),
    "PropertyValueIncorrect": (400, "Warning", "The value '%2' of the property %1 is not acceptable."),
    "PropertyValueOutOfRange": (400, "Warning", "The value '%1' of the property %2 is out of range."),
    "PropertyValueError": (400, "Warning", "The value of the property %1 is not acceptable."),
    "CreateFailedMissingReqProperties": (400, "Critical", "The required property %1 is missing."),
    "ActionParameterMissing": (400, "Critical", "The action %1 needs the parameter %2."),
    "ActionParameterUnknown": (400, "Warning", "The action %1 has no parameter %2."),
    "ActionParameterNotSupported": (400, "Warning", "The parameter %1 of the action %2 is not supported."),
    "ActionParameterValueNotInList": (
        400,
        "Warning",
        "The value '%1' of the parameter %2 of the action %3 is not acceptable.",
    ),
    "ActionParameterValueTypeError": (
        400,
        "Warning",
        "The value '%1' of the parameter %2 of the action %3 has the wrong type.",
    ),
    "ActionParameterValueFormatError": (
        400,
        "Warning",
        "The value '%1' of the parameter %2 of the action %3 has the wrong format.",
    ),
    "QueryNotSupported": (501, "Warning", "Query parameters are not supported here."),
    "QueryParameterUnsupported": (501, "Warning", "The query parameter %1 is not supported."),
    "QueryParameterValueError": (400, "Warning", "The value '%1' of the query parameter %2 is not acceptable."),
    "QueryParameterValueFormatError": (
        400,
        "Warning",
        "The value '%1' of the query parameter %2 has the wrong format.",
    ),
    "QueryNotSupportedOnResource": (400, "Warning", "Query parameters are not supported on this resource."),
    "ResourceMissingAtURI": (404, "Critical", "There is no resource at %1."),
    "OperationNotAllowed": (405, "Critical", "The method is not allowed on this resource."),
    "ResourceAlreadyExists": (409, "Critical", "A %1 with %2 '%3' exists already."),
    "ResourceInUse": (409, "Warning", "The resource is in use."),
    "ResourceInStandby": (409, "Critical", "The system is off."),
    "CreateLimitReachedForResource": (400, "Critical", "No more resources of this kind can be made."),
    "NoValidSession": (401, "Critical", "No valid session or credentials were given."),
    "ResourceAtUriUnauthorized": (401, "Critical", "Access to %1 was denied: %2"),
    "InsufficientPrivilege": (403, "Critical", "The account does not have the privilege for this request."),
    "PasswordChangeRequired": (403, "Critical", "The password of this account must be changed at %1 first."),
    "SessionLimitExceeded": (503, "Critical", "The number of open sessions has reached its limit."),
    "ServiceTemporarilyUnavailable": (503, "Critical", "The service is busy. Try again in %1 seconds."),
    "PreconditionFailed": (412, "Critical", "The ETag given is not the present one."),
    "PreconditionRequired": (428, "Critical", "This request needs an If-Match header."),
    "HeaderInvalid": (400, "Critical", "The header %1 is not acceptable."),
    "HeaderMissing": (400, "Critical", "The header %1 is missing."),
    "PayloadTooLarge": (413, "Critical", "The body is too large."),
    "SMC.1.0.OemLicenseNotPassed": (403, "Critical", "Not licensed to perform this request. The license %1 is needed."),
    "UnsupportedMediaType": (415, "Critical", "The content type is not supported."),
}


class Problem(Exception):
    """A request that is answered with an error. `related` are JSON pointers of the properties at fault."""

    def __init__(
        self,
        message_id: str,
        *args: Any,
        status: int | None = None,
        related: tuple[str, ...] = (),
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message_id, *args)
        self.message_id, self.arguments, self.related = message_id, args, related
        self.status = status or MESSAGES.get(message_id, (500,))[0]
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        return error_body([info(self.message_id, *self.arguments, related=self.related)])


def info(message_id: str, *args: Any, related: tuple[str, ...] = ()) -> dict[str, Any]:
    """One entry of @Message.ExtendedInfo."""
    _status, severity, text = MESSAGES.get(message_id, MESSAGES["GeneralError"])
    for number, value in enumerate(args, 1):
        text = text.replace(f"%{number}", str(value))
    entry = {
        "@odata.type": "#Message.v1_1_2.Message",
        "MessageId": message_id if "." in message_id else f"{REGISTRY}.{message_id}",
        "Message": text,
        "MessageArgs": [str(value) for value in args],
        "MessageSeverity": severity,
        "Severity": severity,
        "Resolution": "None." if severity == "OK" else "Correct the request and send it again.",
    }
    if related:
        entry["RelatedProperties"] = [f"#/{pointer}" for pointer in related]
    return entry


def error_body(entries: list[dict[str, Any]]) -> dict[str, Any]:
    first = entries[0]
    if len(entries) == 1:
        return {"error": {"code": first["MessageId"], "message": first["Message"], "@Message.ExtendedInfo": entries}}
    return {
        "error": {
            "code": f"{REGISTRY}.GeneralError",
            "message": "Several things are wrong, see the extended information.",
            "@Message.ExtendedInfo": entries,
        }
    }
