"""The REST API: endpoints, their errors and their OpenAPI document."""
